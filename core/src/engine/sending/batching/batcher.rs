//! The callers of one step, by lane.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

use super::batched_step::{BatchContext, BatchedStep};
use super::lane::{Admission, Lane, SendSlot};
use crate::clock::now;
use crate::clock::timeout_at;
use crate::engine::contained::short;
use crate::spi::RequestId;
use crate::{Error, ErrorKind, Result};

/// Number of lanes from which on idle lanes are dropped.
const MAXIMUM_LANES: usize = 64;

/// A runtime, and a lane of the step.
type LaneKey = (Id, usize);

/// The callers of one step.
#[derive(Debug)]
pub(crate) struct Batcher<V: BatchedStep> {
    step: Arc<V>,
    lanes: Mutex<Lanes<V>>,
}

struct Lanes<V: BatchedStep> {
    /// A short list: comparing is cheaper than hashing.
    used: Vec<(LaneKey, Arc<Lane<V>>)>,
    /// The ids of the last requests of dropped lanes. New lanes go on from them: a store keeps an answer for each lane that it
    /// has heard of.
    spare: Vec<RequestId>,
}

impl<V: BatchedStep> Lanes<V> {
    /// Drops the lanes without a request under way.
    fn drop_idle(&mut self) {
        let spare = &mut self.spare;
        self.used.retain(|(_, lane)| match lane.retire() {
            None => true,
            Some(request_id) => {
                spare.extend(request_id);
                false
            }
        });
    }
}

impl<V: BatchedStep> Default for Lanes<V> {
    fn default() -> Self {
        Self { used: Vec::new(), spare: Vec::new() }
    }
}

impl<V: BatchedStep> fmt::Debug for Lanes<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.used).finish()
    }
}

impl<V: BatchedStep> Batcher<V> {
    pub(crate) fn new(step: V) -> Self {
        Self { step: Arc::new(step), lanes: Mutex::default() }
    }

    /// Sends a call, alone or with others, and waits for its answer until `end`.
    ///
    /// # Errors
    /// The call's own error; at `end`, `Unavailable` if it was not sent, `Unknown` if it was.
    pub(crate) async fn ask(&self, ask: V::Ask, end: Instant) -> Result<V::Answer> {
        let lane = self.lane(&ask)?;
        let (mut slot, mut stale, mut answer) = match lane.admit(ask) {
            Admission::Alone(ask, request_id, send_slot) => {
                return alone(&lane, &ask, request_id, send_slot, end).await;
            }
            Admission::Queued(slot, stale, answer) => (slot, stale, answer),
        };
        loop {
            let answered = timeout_at(stale.map_or(end, |stale| stale.min(end)), &mut answer).await;
            slot.left = answered.is_ok();
            match answered {
                Ok(Ok(answer)) => return answer,
                Ok(Err(_)) => return Err(Error::new(ErrorKind::Unknown, "the request was dropped half way")),
                Err(_) if now() >= end => return Err(unanswered(slot.leave())),
                Err(_) => lane.overtake(),
            }
            stale = slot.stale_at();
        }
    }

    fn lane(&self, ask: &V::Ask) -> Result<Arc<Lane<V>>> {
        let runtime = Handle::try_current()
            .map_err(|error| Error::new(ErrorKind::Unavailable, "there is no runtime").with_source(error))?;
        let key = (runtime.id(), self.step.lane(ask));
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, lane)) = lanes.used.iter().find(|(of, _)| *of == key) {
            return Ok(Arc::clone(lane));
        }
        if lanes.used.len() >= MAXIMUM_LANES {
            lanes.drop_idle();
        }
        let lane = Arc::new(Lane::new(runtime, Arc::clone(&self.step), lanes.spare.pop()));
        lanes.used.push((key, Arc::clone(&lane)));
        Ok(lane)
    }
}

async fn alone<V: BatchedStep>(
    lane: &Lane<V>,
    ask: &V::Ask,
    request_id: RequestId,
    send_slot: SendSlot<V>,
    end: Instant,
) -> Result<V::Answer> {
    let context = BatchContext { request_id, waiting: &|_| true };
    let answers = timeout_at(end, lane.step().send(context, std::slice::from_ref(ask))).await;
    drop(send_slot);
    answers
        .map_or_else(|_| Err(unanswered(false)), |mut answers| answers.pop().unwrap_or_else(|| Err(short())))
}

fn unanswered(queued: bool) -> Error {
    if queued {
        Error::new(ErrorKind::Unavailable, "the request was not sent within its time limit")
    } else {
        Error::new(ErrorKind::Unknown, "no answer within the request's time limit")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use async_trait::async_trait;

    use super::*;
    use crate::clock::now;
    use crate::spi::Answers;

    /// A step whose calls have the lane that they name, and are answered with the id of their request.
    #[derive(Debug)]
    struct Named;

    #[async_trait]
    impl BatchedStep for Named {
        type Ask = usize;
        type Answer = RequestId;

        const BATCH: usize = 8;
        const IN_TURN: bool = true;

        fn lane(&self, ask: &usize) -> usize {
            *ask
        }

        async fn send(&self, context: BatchContext<'_>, asks: &[usize]) -> Answers<RequestId> {
            asks.iter().map(|_| Ok(context.request_id)).collect()
        }
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a test owns its runtime")]
    async fn c27_the_lanes_that_a_store_hears_of_are_bounded() {
        let batcher = Batcher::new(Named);
        let mut last = HashMap::new();
        for ask in (0..1_000).chain(0..1_000) {
            let RequestId { lane, number } =
                batcher.ask(ask, now() + std::time::Duration::from_secs(60)).await.unwrap();
            let before = last.insert(lane, number).unwrap_or_default();
            assert_eq!(number, before + 1, "no number of a lane is used twice");
        }
        assert!(last.len() <= MAXIMUM_LANES, "{} lanes", last.len());
    }

    #[test]
    fn a_lane_that_was_dropped_while_a_caller_had_it_shares_no_id_with_the_next() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let lane = |request_id| Arc::new(Lane::new(runtime.handle().clone(), Arc::new(Named), request_id));
        let id_of = |lane: &Arc<Lane<Named>>| match lane.admit(0) {
            Admission::Alone(_, request_id, send_slot) => {
                assert!(lane.retire().is_none(), "it is in use");
                drop(send_slot);
                request_id
            }
            Admission::Queued(..) => panic!("no request is under way"),
        };
        let old = lane(None);
        let first = id_of(&old);
        let next = lane(old.retire().unwrap());
        assert_eq!(id_of(&next), RequestId { number: first.number + 1, ..first });
        assert_ne!(id_of(&old).lane, first.lane);
    }
}
