//! The callers of one step, by lane.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::batched_step::{BatchContext, BatchedStep};
use super::exclusive_send::LaneKey;
use super::lane::{Admission, Lane, SendSlot};
use crate::clock::now;
use crate::clock::timeout_at;
use crate::engine::contained::short;
use crate::steps::RequestId;
use crate::{Error, ErrorKind, Result};

/// Number of lanes from which on idle lanes are dropped.
const MAXIMUM_LANES: usize = 64;

/// The callers of one step.
#[derive(Debug)]
pub(crate) struct Batcher<V: BatchedStep> {
    step: Arc<V>,
    lanes: Mutex<Lanes<V>>,
}

/// A short list: comparing is cheaper than hashing.
type Lanes<V> = Vec<(LaneKey, Arc<Lane<V>>)>;

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
        if let Some((_, lane)) = lanes.iter().find(|(of, _)| *of == key) {
            return Ok(Arc::clone(lane));
        }
        if lanes.len() >= MAXIMUM_LANES {
            lanes.retain(|(_, lane)| lane.is_busy());
        }
        let lane = Arc::new(Lane::new(runtime, Arc::clone(&self.step), self.step.exclusive(key)));
        lanes.push((key, Arc::clone(&lane)));
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
