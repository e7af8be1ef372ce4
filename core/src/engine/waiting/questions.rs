//! The questions that the engine's thread asks for waiting callers: polls for those of a queue,
//! looks for those of a wait group. Each lane is asked by a task of its own, so that a server that
//! is silent delays its own waiters alone (C27).

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::now;
use crate::clock::{sleep, sleep_until, wait_until};
use crate::engine::shared::Shared;
use crate::engine::timing::{AFTER_EXPIRY, FAR_POLL_INTERVAL, POLL_INTERVAL};
use crate::engine::waiting::group_waiters::DueLook;
use crate::engine::waiting::poll_schedule::{PollSchedule, Round};
use crate::spi::{KeepPlaces, Lane, Look, Object, Poll, Polled, RequestKind, Steps, StepsExt};
use crate::sync::JoinSet;
use crate::{Result, Ttl};

/// Delay between the arrival of the first waiter and the first poll, so that the poll includes the
/// next arrivals.
const FIRST_POLL: Duration = Duration::from_millis(50);

/// Polls the store about the objects that callers wait for (the poll floor of C14), and keeps the
/// waiters live (C16).
pub(crate) async fn poll(shared: &Arc<Shared>, steps: &Arc<dyn Steps>) {
    let (mut rounds, mut asked, mut schedule) = (JoinSet::new(), HashSet::new(), PollSchedule::default());
    loop {
        let objects = shared.waiters.objects();
        if objects.is_empty() && asked.is_empty() {
            schedule.clear();
            shared.waiters.to_poll.notified().await;
            sleep(FIRST_POLL).await;
            continue;
        }
        schedule.retain(&objects);
        let at = now();
        // By then, a lane can have got its first waiter.
        let mut next = at + POLL_INTERVAL;
        for (lane, objects) in by_lane(objects, |object| steps.lane(&Poll { object: object.clone() }.into()))
        {
            if asked.contains(&lane) {
                continue;
            }
            match schedule.round(lane, objects, at) {
                Ok(round) => {
                    asked.insert(lane);
                    let (shared, steps) = (Arc::clone(shared), Arc::clone(steps));
                    rounds.spawn(async move {
                        let is_sign = round.is_sign;
                        (lane, is_sign, ask_lane(&shared, &*steps, round).await)
                    });
                }
                Err(due) => next = next.min(due),
            }
        }
        tokio::select! {
            () = sleep_until(next) => {}
            Some(round) = rounds.join_next() => {
                let (lane, is_sign, pauses) = round.unwrap_or_else(|error| resume_unwind(error.into_panic()));
                asked.remove(&lane);
                schedule.asked(lane, is_sign, pauses, now());
            }
        }
    }
}

/// Asks about the objects of one lane. Returns the pause of each until its next poll, if it was
/// polled.
async fn ask_lane(shared: &Shared, steps: &dyn Steps, round: Round) -> Vec<(Object, Duration)> {
    let polls = async {
        let mut pauses = Vec::with_capacity(round.polls.len());
        for batch in round.polls.chunks(RequestKind::Poll.maximum_batch()) {
            let polls: Vec<_> = batch.iter().map(|object| Poll { object: object.clone() }).collect();
            let sent = now();
            for (object, answer) in batch.iter().zip(steps.ask_all(&polls).await) {
                let pause = polled(shared, object, answer, sent);
                pauses.push((object.clone(), pause));
            }
        }
        pauses
    };
    let marks = async {
        let mut pauses = Vec::new();
        for batch in round.places.chunks(RequestKind::KeepPlaces.maximum_batch()) {
            let places: Vec<_> = batch.iter().map(|object| KeepPlaces { object: object.clone() }).collect();
            let sent = now();
            for (object, answer) in batch.iter().zip(steps.ask_all(&places).await) {
                match answer.transpose() {
                    None if shared.waiters.marked(object, sent) => {
                        pauses.push((object.clone(), Duration::ZERO));
                    }
                    None => {}
                    Some(answer) => pauses.push((object.clone(), polled(shared, object, answer, sent))),
                }
            }
        }
        pauses
    };
    let (mut pauses, marked) = tokio::join!(polls, marks);
    pauses.extend(marked);
    pauses
}

/// Applies the answer to a poll. Returns the pause until the next one.
fn polled(shared: &Shared, object: &Object, answer: Result<Polled>, sent: Instant) -> Duration {
    match answer {
        Ok(polled) => {
            for orphaned in shared.waiters.polled(object, &polled, sent) {
                shared.send_cancel(object, orphaned, Ttl::DEFAULT);
            }
            let pause = if polled.is_first { POLL_INTERVAL } else { FAR_POLL_INTERVAL };
            return polled.next.map_or(pause, |next| pause.min(next + AFTER_EXPIRY)).max(AFTER_EXPIRY);
        }
        // Woken waiters send requests of their own and get the error.
        Err(error) if error.kind().is_final() => shared.waiters.wake_object(object),
        Err(error) => {
            tracing::debug!(
                stanchion.store = shared.store(),
                stanchion.kind = object.kind.as_str(),
                stanchion.name = object.name.as_str(),
                error.type = error.kind().as_str(),
                exception.message = ?error,
                "a poll failed"
            );
        }
    }
    POLL_INTERVAL
}

/// Looks at all wait groups whose end callers wait for, and at once at those that a hint names.
pub(crate) async fn watch_groups(shared: &Arc<Shared>, steps: &Arc<dyn Steps>) {
    let (mut looks, mut asked, mut waiting) = (JoinSet::new(), HashSet::new(), HashMap::new());
    loop {
        waiting.extend(shared.group_waiters.take_due().into_iter().map(|due| (due.key(), due)));
        let lane_of = |due: &DueLook| steps.lane(&due.look.clone().into());
        let free = |due: &DueLook| !asked.contains(&lane_of(due));
        let due = waiting.extract_if(|_, due| free(due)).map(|(_, due)| due).collect();
        for (lane, due) in by_lane(due, lane_of) {
            asked.insert(lane);
            let (shared, steps) = (Arc::clone(shared), Arc::clone(steps));
            looks.spawn(async move {
                look_at_lane(&shared, &*steps, &due).await;
                lane
            });
        }
        tokio::select! {
            () = wait_until(shared.group_waiters.next_look()) => {}
            () = shared.group_waiters.changed.notified() => {}
            Some(looked) = looks.join_next() => {
                asked.remove(&looked.unwrap_or_else(|error| resume_unwind(error.into_panic())));
            }
        }
    }
}

async fn look_at_lane(shared: &Shared, steps: &dyn Steps, due: &[DueLook]) {
    for batch in due.chunks(RequestKind::Look.maximum_batch()) {
        let looks: Vec<Look> = batch.iter().map(|due| due.look.clone()).collect();
        let sent = now();
        for (due, answer) in batch.iter().zip(steps.ask_all(&looks).await) {
            shared.group_waiters.looked(due, answer, sent);
        }
    }
}

fn by_lane<T>(items: Vec<T>, lane: impl Fn(&T) -> Lane) -> HashMap<Lane, Vec<T>> {
    let mut lanes = HashMap::<Lane, Vec<T>>::new();
    for item in items {
        lanes.entry(lane(&item)).or_default().push(item);
    }
    lanes
}
