//! The questions that the engine's thread asks for those who wait: polls for waiters, looks for those who wait for the end of a
//! wait group. Each lane is asked by a task of its own, so that a server that is silent delays its own waiters alone (C27).

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use crate::Ttl;
use crate::clock::now;
use crate::clock::{sleep, sleep_until, wait_until};
use crate::engine::shared::Shared;
use crate::engine::timing::{AFTER_EXPIRY, POLL_INTERVAL};
use crate::engine::waiting::group_waiters::DueLook;
use crate::steps::{GroupSteps, Look, Object, PermitSteps};
use crate::sync::JoinSet;

/// Delay between the arrival of the first waiter and the first poll, so that the poll includes the next arrivals.
const FIRST_POLL: Duration = Duration::from_millis(50);
/// Maximum number of objects in one step call.
const BATCH: usize = 500;

/// Polls the store about all objects that callers wait for (the poll floor of C14). A poll also keeps the waiters live
/// (C16).
pub(crate) async fn poll(shared: &Arc<Shared>, steps: &Arc<dyn PermitSteps>) {
    let (mut polls, mut asked, mut due) = (JoinSet::new(), HashSet::new(), HashMap::new());
    loop {
        let lanes = by_lane(shared.waiters.objects(), |object| steps.lane(object));
        if lanes.is_empty() && asked.is_empty() {
            due.clear();
            shared.waiters.to_poll.notified().await;
            sleep(FIRST_POLL).await;
            continue;
        }
        let at = now();
        // By then, a lane can have got its first waiter.
        let mut next = at + POLL_INTERVAL;
        for (lane, objects) in lanes {
            match due.get(&lane) {
                _ if asked.contains(&lane) => {}
                Some(due) if *due > at => next = next.min(*due),
                _ => {
                    asked.insert(lane);
                    let (shared, steps) = (Arc::clone(shared), Arc::clone(steps));
                    polls.spawn(async move { (lane, poll_lane(&shared, steps.as_ref(), &objects).await) });
                }
            }
        }
        tokio::select! {
            () = sleep_until(next) => {}
            Some(polled) = polls.join_next() => {
                let (lane, pause) = polled.unwrap_or_else(|error| resume_unwind(error.into_panic()));
                asked.remove(&lane);
                due.insert(lane, now() + pause);
            }
        }
    }
}

/// Polls the objects of one lane. Returns the pause until its next poll.
async fn poll_lane(shared: &Shared, steps: &dyn PermitSteps, objects: &[Object]) -> Duration {
    let mut pause = POLL_INTERVAL;
    for batch in objects.chunks(BATCH) {
        let sent = now();
        for (object, answer) in batch.iter().zip(steps.poll(batch).await) {
            match answer {
                Ok(polled) => {
                    for orphaned in shared.waiters.polled(object, &polled, sent) {
                        shared.send_cancel(object, orphaned, Ttl::DEFAULT);
                    }
                    pause = polled.next.map_or(pause, |next| pause.min(next + AFTER_EXPIRY));
                }
                // Woken waiters send requests of their own and get the error.
                Err(error) if error.kind().is_final() => shared.waiters.wake_object(object),
                Err(error) => tracing::debug!(%error, name = %object.name, "poll failed"),
            }
        }
    }
    pause.max(AFTER_EXPIRY)
}

/// Looks at all wait groups whose end callers wait for, and at once at those that a hint names.
pub(crate) async fn watch_groups(shared: &Arc<Shared>, groups: Option<&Arc<dyn GroupSteps>>) {
    let Some(groups) = groups else { return std::future::pending().await };
    let (mut looks, mut asked, mut waiting) = (JoinSet::new(), HashSet::new(), HashMap::new());
    loop {
        waiting.extend(shared.group_waiters.take_due().into_iter().map(|due| (due.key(), due)));
        let free = |due: &DueLook| !asked.contains(&groups.lane(&due.look.object));
        let due = waiting.extract_if(|_, due| free(due)).map(|(_, due)| due).collect();
        for (lane, due) in by_lane(due, |due| groups.lane(&due.look.object)) {
            asked.insert(lane);
            let (shared, groups) = (Arc::clone(shared), Arc::clone(groups));
            looks.spawn(async move {
                look_at_lane(&shared, groups.as_ref(), &due).await;
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

async fn look_at_lane(shared: &Shared, groups: &dyn GroupSteps, due: &[DueLook]) {
    for batch in due.chunks(BATCH) {
        let looks: Vec<Look> = batch.iter().map(|due| due.look.clone()).collect();
        let sent = now();
        for (due, answer) in batch.iter().zip(groups.look(&looks).await) {
            shared.group_waiters.looked(due, answer, sent);
        }
    }
}

fn by_lane<T>(items: Vec<T>, lane: impl Fn(&T) -> usize) -> HashMap<usize, Vec<T>> {
    let mut lanes = HashMap::<usize, Vec<T>>::new();
    for item in items {
        lanes.entry(lane(&item)).or_default().push(item);
    }
    lanes
}
