//! Many callers' calls in one request, which is sent again with the same id while its outcome is unknown (L5).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::ErrorKind;
use crate::clock::now;
use crate::clock::sleep;
use crate::engine::sending::batching::{BatchContext, BatchedStep};
use crate::spi::{Answers, LimitAsk, LimitCall, LimitSteps, Limited, ParameterCheck};

/// Limiter calls that leave in one request.
#[derive(Debug)]
pub(super) struct LimitBatches(pub(super) Arc<dyn LimitSteps>);

/// The answer to one call.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) limited: Limited,
    /// Just before the request was sent for the first time: the store decided later.
    pub(super) sent: Instant,
    /// When the answer arrived: the store decided earlier.
    pub(super) received: Instant,
}

/// Time after which the request is not sent again: a store keeps its answer for 60 s; later a copy could be charged again.
const RETRY_TIME: Duration = Duration::from_secs(55);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_millis(400);

#[async_trait]
impl BatchedStep for LimitBatches {
    type Ask = LimitCall;
    type Answer = Answered;

    const BATCH: usize = 500;
    const IN_TURN: bool = true;

    fn lane(&self, ask: &LimitCall) -> usize {
        self.0.lane(&ask.object)
    }

    async fn send(&self, context: BatchContext<'_>, asks: &[LimitCall]) -> Answers<Answered> {
        let sent = now();
        let mut answers = self.0.decide(context.request_id, asks).await;
        if answers.iter().any(in_doubt) {
            self.retry(&context, asks, sent, &mut answers).await;
        }
        let received = now();
        let answered = |limited| Answered { limited, sent, received };
        answers.into_iter().map(|answer| answer.map(answered)).collect()
    }
}

impl LimitBatches {
    /// Sends the request again until its outcome is known or no caller waits for it. Calls whose caller has gone, or was
    /// refused, become calls of cost 0: if the store has not executed the request yet, they are not charged.
    async fn retry(
        &self,
        context: &BatchContext<'_>,
        asks: &[LimitCall],
        sent: Instant,
        answers: &mut Answers<Limited>,
    ) {
        let mut calls = asks.to_vec();
        let mut pause = FIRST_PAUSE;
        loop {
            sleep(pause.mul_f64(rand::random_range(0.5..=1.0))).await;
            pause = (pause * 2).min(LAST_PAUSE);
            let mut waited_for = false;
            for (index, call) in calls.iter_mut().enumerate() {
                let answer = answers.get(index);
                // A caller that was certainly refused asks anew: this one must not charge it, too.
                let is_refused = answer.is_some_and(|answer| answer.is_err() && !in_doubt(answer));
                if !context.waits(index) || is_refused {
                    (call.check, call.ask) = (ParameterCheck::Follow, LimitAsk::Take { cost: 0 });
                } else if answer.is_some_and(in_doubt) {
                    waited_for = true;
                }
            }
            if !waited_for || now() >= sent + RETRY_TIME {
                return;
            }
            let retried = self.0.decide(context.request_id, &calls).await;
            let mut refused = false;
            for (answer, again) in answers.iter_mut().zip(retried) {
                match again {
                    Ok(_) if in_doubt(answer) => *answer = again,
                    // It says nothing about the first attempt, but that a further one would not help.
                    Err(error) => refused |= error.kind().is_final(),
                    Ok(_) => {}
                }
            }
            if refused {
                return;
            }
            if !answers.iter().any(in_doubt) {
                return;
            }
        }
    }
}

fn in_doubt(answer: &crate::Result<Limited>) -> bool {
    answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::ExactQuota;
    use crate::spi::{Object, Refund, RequestId};
    use crate::{Error, Kind, Name, Quota, Result, Ticket};

    /// A store whose answers are all lost.
    #[derive(Debug)]
    struct Silent;

    #[async_trait]
    impl LimitSteps for Silent {
        fn lane(&self, _: &Object) -> usize {
            0
        }
        async fn decide(&self, _: RequestId, calls: &[LimitCall]) -> Answers<Limited> {
            calls.iter().map(|_| Err(Error::new(ErrorKind::Unknown, "lost"))).collect()
        }
        async fn refund(&self, _: &[Refund]) -> Answers<u64> {
            Vec::new()
        }
        async fn set_quota(&self, _: &Object, _: ExactQuota) -> Result<()> {
            Ok(())
        }
        async fn reset(&self, _: &Object) -> Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "a test owns its runtime")]
    async fn l5_an_outcome_unknown_for_long_ends_as_unknown() {
        let object = Object { kind: Kind::Limiter, name: Name::new("l").unwrap() };
        let quota = Quota::per_second(1).validate().unwrap();
        let call =
            LimitCall { object, quota, check: ParameterCheck::Follow, ask: LimitAsk::Take { cost: 1 } };
        let request_id = RequestId { lane: Ticket::random(), number: 1 };
        let context = BatchContext { request_id, waiting: &|_| true };
        let before = now();
        let answers = LimitBatches(Arc::new(Silent)).send(context, &[call]).await;
        assert!(matches!(&answers[..], [Err(error)] if error.kind() == ErrorKind::Unknown));
        let waited = before.elapsed();
        assert!(waited > RETRY_TIME - LAST_PAUSE && waited <= RETRY_TIME + LAST_PAUSE, "{waited:?}");
    }
}
