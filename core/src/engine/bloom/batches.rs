//! Many callers' calls in one request, which is sent again with the same id while its outcome is unknown (B3).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::clock::now;
use crate::clock::{sleep, timeout_at};
use crate::engine::sending::batching::{BatchContext, BatchedStep};
use crate::spi::{Answers, BloomAsk, BloomCall, BloomSteps, Probed, RequestId, refused};
use crate::{Error, ErrorKind, Result, Ticket};

/// Bloom filter calls that leave in one request.
#[derive(Debug)]
pub(super) struct BloomBatches(pub(super) Arc<dyn BloomSteps>);

/// Maximum number of items of one request (C27).
pub(super) const MAX_ITEMS: usize = 500;
/// Time for which a store keeps its answer: later a copy of the request could find its own items.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// Time after which the request is not sent again.
const RETRY_TIME: Duration = Duration::from_secs(55);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_millis(400);

#[async_trait]
impl BatchedStep for BloomBatches {
    type Ask = BloomCall;
    type Answer = Probed;

    const BATCH: usize = MAX_ITEMS;
    const IN_TURN: bool = true;

    fn lane(&self, ask: &BloomCall) -> usize {
        self.0.lane(&ask.of.object)
    }

    async fn send(&self, context: BatchContext<'_>, asks: &[BloomCall]) -> Answers<Probed> {
        let mut answers = Vec::with_capacity(asks.len());
        for (part, range) in parts(asks, self.0.most_positions()).into_iter().enumerate() {
            // Each part has a lane of its own: a store keeps only the last answer of a lane.
            let lane = Ticket::from(context.request_id.lane.as_u128().wrapping_add(part as u128));
            let request_id = RequestId { lane, number: context.request_id.number };
            answers.append(&mut self.send_until_known(&context, request_id, asks, range).await);
        }
        answers
    }
}

impl BloomBatches {
    /// Sends one part until its outcome is known or no caller waits for it.
    async fn send_until_known(
        &self,
        context: &BatchContext<'_>,
        request_id: RequestId,
        asks: &[BloomCall],
        range: Range<usize>,
    ) -> Answers<Probed> {
        let calls = &asks[range.clone()];
        if !range.clone().any(|index| context.waits(index)) {
            // It waited behind others for too long. What is not sent inserts nothing (C3).
            return refused(
                calls.len(),
                &Error::new(ErrorKind::Unavailable, "no caller waited for it any more"),
            );
        }
        let sent = now();
        let mut answers = self.0.probe(request_id, calls).await;
        let mut pause = FIRST_PAUSE;
        loop {
            let waited_for = |(index, answer)| in_doubt(answer) && context.waits(range.start + index);
            if !answers.iter().enumerate().any(waited_for) || now() + pause >= sent + RETRY_TIME {
                return answers;
            }
            sleep(pause.mul_f64(rand::random_range(0.5..=1.0))).await;
            pause = (pause * 2).min(LAST_PAUSE);
            let Ok(retried) = timeout_at(sent + ANSWER_TIME, self.0.probe(request_id, calls)).await else {
                return answers;
            };
            let mut refused = false;
            for (answer, again) in answers.iter_mut().zip(retried) {
                match again {
                    // Also of a call that was refused at first: it was executed now.
                    Ok(_) if answer.is_err() => *answer = again,
                    Err(error) if error.kind() == ErrorKind::Unknown && answer.is_err() => {
                        *answer = Err(error)
                    }
                    // It says nothing about the first attempt, but that a further one would not help.
                    Err(error) => refused |= error.kind().is_final(),
                    Ok(_) => {}
                }
            }
            if refused {
                return answers;
            }
        }
    }
}

/// Splits a batch so that no request has more than `most` positions, nor more than [`MAX_ITEMS`] items, unless a single call
/// has.
fn parts(asks: &[BloomCall], most: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::with_capacity(1);
    let (mut start, mut positions, mut items) = (0, 0, 0);
    for (index, call) in asks.iter().enumerate() {
        let more = match &call.ask {
            BloomAsk::Insert(positions) | BloomAsk::Contains(positions) => positions.len(),
        };
        let more_items = more / call.of.terms.shape.hashes() as usize;
        if index > start && (positions + more > most || items + more_items > MAX_ITEMS) {
            parts.push(start..index);
            (start, positions, items) = (index, 0, 0);
        }
        positions += more;
        items += more_items;
    }
    parts.push(start..asks.len());
    parts
}

fn in_doubt(answer: &Result<Probed>) -> bool {
    answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unknown)
}
