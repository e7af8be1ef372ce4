//! Many callers' calls in one request, which is sent again under the same name while its outcome is unknown (L5).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::clock::{now, sleep};
use crate::engine::sending::batching::{BatchContext, BatchedStep};
use crate::steps::{Answers, LimitAsk, LimitCall, LimitSteps, Limited, QuotaCheck};
use crate::{Error, ErrorKind};

/// Calls that leave together.
#[derive(Debug)]
pub(super) struct LimitBatches(pub(super) Arc<dyn LimitSteps>);

/// The answer to a call.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) limited: Limited,
    /// Just before the flight was sent for the first time: the store decided after that.
    pub(super) sent: Instant,
    /// When the answer came: the store decided before that.
    pub(super) received: Instant,
}

/// A store keeps what it answered for 60 s; later a copy of the flight could be charged again.
const GIVE_UP: Duration = Duration::from_secs(55);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_millis(400);

#[async_trait]
impl BatchedStep for LimitBatches {
    type Ask = LimitCall;
    type Answer = Answered;

    const BATCH: usize = 512;
    const IN_TURN: bool = true;

    fn lane(&self, ask: &LimitCall) -> usize {
        self.0.lane(&ask.object)
    }

    async fn send(&self, context: BatchContext<'_>, asks: &[LimitCall]) -> Answers<Answered> {
        let sent = now();
        let mut answers = self.0.decide(context.request_id, asks).await;
        if answers.iter().any(in_doubt) {
            self.again(&context, asks, sent, &mut answers).await;
        }
        let received = now();
        let answered = |limited| Answered { limited, sent, received };
        answers.into_iter().map(|answer| answer.map(answered)).collect()
    }
}

impl LimitBatches {
    /// Sends the flight until its outcome is known or nobody waits for it. Calls whose caller has gone ask for nothing
    /// any more: if the store has not executed the flight yet, they are not charged.
    async fn again(
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
                if !context.waits(index) {
                    (call.check, call.ask) = (QuotaCheck::Follow, LimitAsk::Take { cost: 0 });
                } else if answers.get(index).is_some_and(in_doubt) {
                    waited_for = true;
                }
            }
            if !waited_for || now() >= sent + GIVE_UP {
                return;
            }
            let retried = self.0.decide(context.request_id, &calls).await;
            for (answer, again) in answers.iter_mut().zip(retried) {
                // What is certain of the retry is not of the first attempt.
                let passing = again.as_ref().is_err_and(|error: &Error| !error.kind().is_final());
                if in_doubt(answer) && !passing {
                    *answer = again;
                }
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
