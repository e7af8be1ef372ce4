//! Many callers' calls in one request, which is sent again under the same name while its outcome is unknown (B3).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout_at;

use crate::clock::{now, sleep};
use crate::engine::sending::batching::{BatchContext, BatchedStep};
use crate::steps::{Answers, BloomAsk, BloomCall, BloomSteps, Probed, RequestId, refused};
use crate::{Error, ErrorKind, Result, Ticket};

/// Calls that leave together.
#[derive(Debug)]
pub(super) struct BloomBatches(pub(super) Arc<dyn BloomSteps>);

/// How long a store keeps what it answered: after that a copy of the request_id could find its own items.
const KEPT: Duration = Duration::from_secs(60);
/// When no further copy is sent.
const GIVE_UP: Duration = Duration::from_secs(55);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_millis(400);

#[async_trait]
impl BatchedStep for BloomBatches {
    type Ask = BloomCall;
    type Answer = Probed;

    const BATCH: usize = 512;
    const IN_TURN: bool = true;

    fn lane(&self, ask: &BloomCall) -> usize {
        self.0.lane(&ask.of.object)
    }

    async fn send(&self, context: BatchContext<'_>, asks: &[BloomCall]) -> Answers<Probed> {
        let mut answers = Vec::with_capacity(asks.len());
        for (place, load) in loads(asks, self.0.most_positions()).into_iter().enumerate() {
            // Each load has a lane of its own: a store keeps the last request_id of a lane only.
            let lane = Ticket::from(context.request_id.lane.as_u128().wrapping_add(place as u128));
            let request_id = RequestId { lane, number: context.request_id.number };
            answers.append(&mut self.send_until_known(&context, request_id, asks, load).await);
        }
        answers
    }
}

impl BloomBatches {
    /// Sends one load until its outcome is known or nobody waits for it.
    async fn send_until_known(
        &self,
        context: &BatchContext<'_>,
        request_id: RequestId,
        asks: &[BloomCall],
        load: Range<usize>,
    ) -> Answers<Probed> {
        let calls = &asks[load.clone()];
        if !load.clone().any(|index| context.waits(index)) {
            // It stood behind others for too long. What is not sent inserts nothing (C3).
            return refused(
                calls.len(),
                &Error::new(ErrorKind::Unavailable, "nobody waited for it any more"),
            );
        }
        let sent = now();
        let mut answers = self.0.probe(request_id, calls).await;
        answers.resize_with(calls.len(), || Err(Error::new(ErrorKind::Unknown, "the answer was too short")));
        let mut pause = FIRST_PAUSE;
        loop {
            let waited_for = |(index, answer)| in_doubt(answer) && context.waits(load.start + index);
            if !answers.iter().enumerate().any(waited_for) || now() + pause >= sent + GIVE_UP {
                return answers;
            }
            sleep(pause.mul_f64(rand::random_range(0.5..=1.0))).await;
            pause = (pause * 2).min(LAST_PAUSE);
            let Ok(retried) = timeout_at(sent + KEPT, self.0.probe(request_id, calls)).await else {
                return answers;
            };
            for (answer, again) in answers.iter_mut().zip(retried) {
                // What is certain of the retry is not of the first attempt.
                let passing = again.as_ref().is_err_and(|error| !error.kind().is_final());
                if in_doubt(answer) && !passing {
                    *answer = again;
                }
            }
        }
    }
}

/// Cuts a batch so that no request has more than so many positions, unless one call has.
fn loads(asks: &[BloomCall], most: usize) -> Vec<Range<usize>> {
    let mut loads = Vec::with_capacity(1);
    let (mut start, mut positions) = (0, 0);
    for (index, ask) in asks.iter().enumerate() {
        let more = match &ask.ask {
            BloomAsk::Insert(positions) | BloomAsk::Contains(positions) => positions.len(),
        };
        if index > start && positions + more > most {
            loads.push(start..index);
            (start, positions) = (index, 0);
        }
        positions += more;
    }
    loads.push(start..asks.len());
    loads
}

fn in_doubt(answer: &Result<Probed>) -> bool {
    answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unknown)
}
