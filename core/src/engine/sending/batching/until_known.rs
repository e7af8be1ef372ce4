//! Sends a batch. One whose answer the store keeps is sent again, with the same id, while its
//! outcome is unknown (L5, B3).

use std::time::Duration;

use crate::Result;
use crate::clock::{Instant, now, sleep};
use crate::engine::retrying::Pauses;
use crate::spi::{Answers, LimitAsk, ParameterCheck, Request, Response, Steps};

/// Time for which a store keeps its answer: later a copy of the batch could be charged again, or
/// find its own items.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// Time after which a batch of decisions or probes is not sent again. Callers who wait less long
/// end it before: a probe waits for one request time limit.
const RETRY_TIME: Duration = Duration::from_secs(55);

/// Sends a batch that is to be answered by `end`. `waits` tells whether the caller of an entry
/// still waits for its answer; nobody waits longer than until `give_up`, if there is one.
pub(super) async fn send(
    steps: &dyn Steps,
    batch: &mut [Request],
    end: Instant,
    give_up: Option<Instant>,
    waits: &(dyn Fn(usize) -> bool + Sync),
) -> Answers<Response> {
    let sent = now();
    let answers = steps.send(batch, end).await;
    again(steps, batch, answers, sent, give_up, waits).await
}

/// Whether a batch with these answers is to be sent again.
pub(super) fn is_in_doubt(
    batch: &[Request],
    answers: &Answers<Response>,
    waits: &(dyn Fn(usize) -> bool + Sync),
) -> bool {
    let waited_for = |(index, answer)| in_doubt(answer) && waits(index);
    batch.first().is_some_and(|request| request.kind().is_in_turn())
        && answers.iter().enumerate().any(waited_for)
}

/// Goes on with a batch that was sent at `sent` and answered so.
pub(super) async fn again(
    steps: &dyn Steps,
    batch: &mut [Request],
    mut answers: Answers<Response>,
    sent: Instant,
    give_up: Option<Instant>,
    waits: &(dyn Fn(usize) -> bool + Sync),
) -> Answers<Response> {
    let latest = give_up.map_or(sent + ANSWER_TIME, |give_up| give_up.min(sent + ANSWER_TIME));
    let give_up = latest.min(sent + RETRY_TIME);
    let mut pauses = Pauses::new();
    while is_in_doubt(batch, &answers, waits) {
        sleep(pauses.next().min(give_up.saturating_duration_since(now()))).await;
        if now() >= give_up {
            break;
        }
        let is_open: Vec<bool> = batch
            .iter_mut()
            .zip(&answers)
            .enumerate()
            // A caller that was certainly refused asks anew: this one must not charge it, too.
            .map(|(index, (request, answer))| {
                let is_refused = answer.is_err() && !in_doubt(answer);
                let is_withdrawn = (is_refused || !waits(index)) && withdraw(request);
                answer.is_err() && !is_withdrawn
            })
            .collect();
        let end = (now() + steps.request_timeout()).min(latest);
        let retried = steps.send(batch, end).await;
        let mut is_final = false;
        for ((answer, again), is_open) in answers.iter_mut().zip(retried).zip(is_open) {
            match again {
                // Also of a request that was refused at first and could not be withdrawn: it may
                // have been executed now.
                Ok(_) if is_open => *answer = again,
                Err(_) if is_open && in_doubt(&again) => *answer = again,
                // It says nothing about the first attempt, but that a further one would not help.
                Err(error) => is_final |= error.kind().is_final(),
                Ok(_) => {}
            }
        }
        if is_final {
            break;
        }
    }
    answers
}

fn in_doubt(answer: &Result<Response>) -> bool {
    answer.as_ref().is_err_and(|error| error.kind() == crate::ErrorKind::Unknown)
}

/// Makes a decision one of cost 0: if the store has not executed it yet, it is not charged. Returns
/// whether it was one.
fn withdraw(request: &mut Request) -> bool {
    let Request::Decide(decide) = request else { return false };
    (decide.check, decide.ask) = (ParameterCheck::Follow, LimitAsk::Take { cost: 0 });
    true
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::engine::timing::MAXIMUM_PAUSE;
    use crate::spi::{Decide, Lane, Object, RequestId, refused};
    use crate::{Error, ErrorKind, Kind, Name, Quota};

    /// A store whose answers are all lost.
    #[derive(Debug)]
    struct Silent;

    #[async_trait]
    impl Steps for Silent {
        fn lane(&self, request: &Request) -> Lane {
            Lane::of_kind(0, request)
        }

        async fn send(&self, batch: &[Request], _: Instant) -> Answers<Response> {
            refused(batch.len(), &Error::new(ErrorKind::Unknown, "lost"))
        }

        fn request_timeout(&self) -> Duration {
            Duration::from_secs(2)
        }
    }

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "a test owns its runtime")]
    async fn l5_an_outcome_unknown_for_long_ends_as_unknown() {
        let object = Object { kind: Kind::Limiter, name: Name::new("l").unwrap() };
        let quota = Quota::per_second(1).validate().unwrap();
        let (check, ask) = (ParameterCheck::Follow, LimitAsk::Take { cost: 1 });
        let mut batch = [Decide { id: RequestId::NONE, object, quota, check, ask }.into()];
        let before = now();
        let answers = send(&Silent, &mut batch, now() + Duration::from_secs(2), None, &|_| true).await;
        assert!(matches!(&answers[..], [Err(error)] if error.kind() == ErrorKind::Unknown));
        let waited = before.elapsed();
        assert!(waited >= RETRY_TIME && waited <= RETRY_TIME + MAXIMUM_PAUSE, "{waited:?}");
    }
}
