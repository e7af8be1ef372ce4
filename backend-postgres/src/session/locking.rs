//! Acquiring a mutex: a try, a place in the queue, and another try.

use std::time::Duration;

use stanchion_core::clock::{Instant, now, timeout_at};
use stanchion_core::spi::{Acquire, Acquired, Answers, refused};
use stanchion_core::{Error, ErrorKind, Result};

use super::attempts::TryOutcome;
use super::recording::stale_records_removed;
use super::reply::{Reply, unknown, wait_for_reply, waiting};
use super::steps::SessionSteps;

/// Maximum delay that the queue of one name, whose rows another session may keep locked, causes to
/// other names of its lane (C27).
const MAXIMUM_QUEUE_DELAY: Duration = Duration::from_millis(400);

/// The answer to an acquisition; or, if it was refused, whether its ticket has a place.
type Outcome = std::result::Result<Result<Acquired>, bool>;

fn unsent() -> Error {
    Error::new(ErrorKind::Unavailable, "no session took the request within its time limit")
}

fn placed_all_the_same(error: Error) -> Error {
    Error::new(ErrorKind::Unknown, "it queues, and could not ask for its turn").with_source(error)
}

impl SessionSteps {
    /// Tries each mutex. A refused acquisition joins the queue and tries again, since an unlock
    /// before its place was committed has not seen the place.
    pub(super) async fn lock(&self, asks: &[&Acquire]) -> Answers<Acquired> {
        let end = self.deadline();
        stale_records_removed(&self.lock_sessions, asks).await;
        let mut queue_deadline = None;
        let mut outcomes = self.try_all(asks, end, &mut queue_deadline).await;
        let joining = self.joining(asks, &mut outcomes);
        if !joining.is_empty() {
            let of = |indices: &[usize]| -> Vec<&Acquire> { indices.iter().map(|at| asks[*at]).collect() };
            let joined = self.join(&of(&joining), end, &mut queue_deadline).await;
            let placed: Vec<usize> = joining
                .iter()
                .zip(&joined)
                .filter(|(_, joined)| joined.is_err())
                .map(|(at, _)| *at)
                .collect();
            for (at, joined) in joining.into_iter().zip(joined) {
                outcomes[at] = joined;
            }
            let again = of(&placed);
            stale_records_removed(&self.lock_sessions, &again).await;
            let again = self.try_all(&again, end, &mut queue_deadline).await;
            for (at, again) in placed.into_iter().zip(again) {
                // Whatever became of this try: the place is at the server, and is to be freed.
                outcomes[at] = again.map(|tried| tried.map_err(placed_all_the_same));
            }
        }
        self.lock_sessions.with(|state| {
            let answer = |(outcome, ask): (Outcome, &&Acquire)| match outcome {
                Ok(Ok(Acquired::Granted { .. }))
                    if state.holds.of(&ask.object.name, ask.ticket).is_none() =>
                {
                    // The engine does not know of the hold yet, and would not hear of its end.
                    Err(Error::new(
                        ErrorKind::Unavailable,
                        "the session ended with the hold that it was granted",
                    ))
                }
                Ok(answer) => answer,
                Err(_) => Ok(waiting(state.places.epoch(ask.ticket).unwrap_or_default())),
            };
            outcomes.into_iter().zip(asks).map(answer).collect()
        })
    }

    /// Requests all tries, and waits for their outcomes.
    async fn try_all(
        &self,
        asks: &[&Acquire],
        end: Instant,
        queue_deadline: &mut Option<Instant>,
    ) -> Vec<Outcome> {
        let at = now();
        let replies: Vec<_> =
            self.lock_sessions.with(|state| asks.iter().map(|ask| state.acquire(ask, at)).collect());
        let mut outcomes = Vec::with_capacity(replies.len());
        for (ask, reply) in asks.iter().zip(replies) {
            outcomes.push(match self.wait_for_outcome(ask, reply, end).await {
                Err(error) => Ok(Err(error)),
                Ok(TryOutcome::Answered(answer)) => Ok(Ok(answer)),
                Ok(TryOutcome::GrantedFromQueue(answer, left)) => {
                    // The first place in the queue should be that of a ticket that waits.
                    let until = *queue_deadline.get_or_insert_with(|| end.min(now() + MAXIMUM_QUEUE_DELAY));
                    drop(timeout_at(until, left).await);
                    Ok(Ok(answer))
                }
                Ok(TryOutcome::Refused { has_place }) => Err(has_place),
            });
        }
        outcomes
    }

    async fn wait_for_outcome(
        &self,
        ask: &Acquire,
        reply: Reply<TryOutcome>,
        end: Instant,
    ) -> Result<TryOutcome> {
        match reply {
            Reply::Now(answer) => answer,
            Reply::Later(number, answer) => match wait_for_reply(answer, end).await {
                Err(error) if error.kind() == ErrorKind::Unknown => {
                    let was_unsent = self
                        .lock_sessions
                        .with(|state| state.outbound.attempts.withdraw(&ask.object.name, number));
                    Err(if was_unsent { unsent() } else { error })
                }
                answer => answer,
            },
            Reply::AfterProbe(alive) => {
                let sent = wait_for_reply(alive, end).await?;
                let claimed = self.lock_sessions.with(|state| state.claimed(ask, sent));
                Ok(claimed.map_or(TryOutcome::Refused { has_place: false }, TryOutcome::Answered))
            }
        }
    }

    /// Returns the indices of refused acquisitions that are to join the queue, or to leave it, and
    /// notes that their tickets may have a place. A later cancel finds the note; an earlier one has
    /// left a tombstone.
    fn joining(&self, asks: &[&Acquire], outcomes: &mut [Outcome]) -> Vec<usize> {
        let at = now();
        self.lock_sessions.with(|state| {
            let mut joining = Vec::new();
            for (index, (ask, outcome)) in asks.iter().zip(outcomes).enumerate() {
                let Err(has_place) = *outcome else { continue };
                let joins = if ask.queue { !has_place } else { state.places.contains(ask.ticket) };
                if joins && state.holds.tombstones.contains(ask.ticket, at) {
                    *outcome = Ok(Ok(Acquired::Cancelled));
                } else if joins && !state.places.leaving.cancel(ask.ticket) {
                    let detail = "the place of its last grant is being given up";
                    *outcome = Ok(Err(Error::new(ErrorKind::Unavailable, detail)));
                } else if joins {
                    state.places.joining(ask.ticket);
                    joining.push(index);
                }
            }
            joining
        })
    }

    /// Lets tickets join the queue, or leave it. Joined places are committed when this returns. An
    /// acquisition that is not to wait has its final answer.
    async fn join(
        &self,
        asks: &[&Acquire],
        end: Instant,
        queue_deadline: &mut Option<Instant>,
    ) -> Vec<Outcome> {
        let requests: Vec<Acquire> = asks.iter().map(|ask| (*ask).clone()).collect();
        let until = *queue_deadline.get_or_insert_with(|| end.min(now() + MAXIMUM_QUEUE_DELAY));
        let joined = timeout_at(until, self.places.acquire(&requests, self.deadline())).await;
        let answers = joined.unwrap_or_else(|_| refused(requests.len(), &unknown()));
        self.lock_sessions.with(|state| {
            let outcome =
                |(ask, answer): (&Acquire, Result<Acquired>)| match state.places.joined(ask, &answer) {
                    true => Err(true),
                    false => Ok(answer),
                };
            requests.iter().zip(answers).map(outcome).collect()
        })
    }
}
