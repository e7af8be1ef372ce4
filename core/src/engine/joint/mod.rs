//! Joins concurrent steps: while one request is under way, those who come gather, and leave together in the next.
//!
//! One caller alone sends its request by itself, without a hop. Whoever finds a request under way queues; when it has
//! landed, a task takes all who gathered, in the order of their arrival, and goes on for as long as there are more.
//! After a request of several the next one lets those first ask who are ready to run; nobody waits for a time.
//! Lanes are kept apart by runtime, so that nobody depends on a runtime that is blocked or has ended, and a request
//! whose caller does not poll it keeps the others for [`STALE`] at most.
//!
//! Where two steps exclude each other at the store, what carries several callers leaves in turn: see [`gate`].

mod gate;
mod lane;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, timeout_at};

pub(crate) use self::gate::{Gate, Gates};
use self::lane::{Boarding, Lane, Turn};
use super::steps::{Answers, FlightId};
use crate::clock::now;
use crate::{Error, ErrorKind, Result};

/// A step that can carry many callers' requests at once.
#[async_trait]
pub(crate) trait Vessel: fmt::Debug + Send + Sync + 'static {
    type Ask: Send + Sync + 'static;
    type Answer: Send + 'static;

    /// Requests of one call at most, so that other clients of the store are not kept waiting for long.
    const BATCH: usize;
    /// A lane has one request under way at a time, however long it takes; only that of a caller who may not poll it is
    /// overtaken.
    const IN_TURN: bool;

    /// Requests of one lane can leave together.
    fn lane(&self, ask: &Self::Ask) -> usize;

    /// What the requests of that lane leave through, if there are others that they exclude at the store.
    fn gate(&self, _: LaneKey) -> Option<Arc<Gate>> {
        None
    }

    /// One request for all; an answer for each, in order.
    async fn carry(&self, passage: Passage<'_>, asks: &[Self::Ask]) -> Answers<Self::Answer>;
}

/// What a vessel may know of one request.
pub(crate) struct Passage<'a> {
    /// Names it. The requests of one lane of that name do not overlap: one that overtakes begins another.
    pub(crate) flight: FlightId,
    waiting: &'a (dyn Fn(usize) -> bool + Send + Sync),
}

impl Passage<'_> {
    /// Whether the caller of that ask still waits for its answer.
    pub(crate) fn waits(&self, index: usize) -> bool {
        (self.waiting)(index)
    }
}

/// After this time a request that is still under way keeps nobody any more.
const STALE: Duration = Duration::from_millis(25);
/// Lanes without a request under way are forgotten when there are so many.
const LANES: usize = 64;

/// The callers of one step.
#[derive(Debug)]
pub(crate) struct Joint<V: Vessel> {
    vessel: Arc<V>,
    lanes: Mutex<Lanes<V>>,
}

/// The runtime, and the step's own lane.
pub(crate) type LaneKey = (Id, usize);

/// So few that to compare is cheaper than to hash.
type Lanes<V> = Vec<(LaneKey, Arc<Lane<V>>)>;

impl<V: Vessel> Joint<V> {
    pub(crate) fn new(vessel: V) -> Self {
        Self { vessel: Arc::new(vessel), lanes: Mutex::default() }
    }

    /// Sends a request, alone or with others, and waits for its answer until `end`.
    ///
    /// # Errors
    /// That of the entry; `Unavailable` at `end` if it was not sent, `Unknown` if it was.
    pub(crate) async fn ask(&self, ask: V::Ask, end: Instant) -> Result<V::Answer> {
        let lane = self.lane(&ask)?;
        let (mut place, mut stale, mut answer) = match lane.board(ask) {
            Boarding::Alone(ask, flight, turn) => return alone(&lane, &ask, flight, turn, end).await,
            Boarding::Queued(place, stale, answer) => (place, stale, answer),
        };
        loop {
            let answered = timeout_at(stale.map_or(end, |stale| stale.min(end)), &mut answer).await;
            place.left = answered.is_ok();
            match answered {
                Ok(Ok(answer)) => return answer,
                Ok(Err(_)) => return Err(Error::new(ErrorKind::Unknown, "the request was dropped half way")),
                Err(_) if now() >= end => return Err(unanswered(place.leave())),
                Err(_) => lane.overtake(),
            }
            stale = place.stale_at();
        }
    }

    fn lane(&self, ask: &V::Ask) -> Result<Arc<Lane<V>>> {
        let runtime = Handle::try_current()
            .map_err(|error| Error::new(ErrorKind::Unavailable, "there is no runtime").with_source(error))?;
        let key = (runtime.id(), self.vessel.lane(ask));
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, lane)) = lanes.iter().find(|(of, _)| *of == key) {
            return Ok(Arc::clone(lane));
        }
        if lanes.len() >= LANES {
            lanes.retain(|(_, lane)| lane.is_busy());
        }
        let lane = Arc::new(Lane::new(runtime, Arc::clone(&self.vessel), self.vessel.gate(key)));
        lanes.push((key, Arc::clone(&lane)));
        Ok(lane)
    }
}

async fn alone<V: Vessel>(
    lane: &Lane<V>,
    ask: &V::Ask,
    flight: FlightId,
    turn: Turn<V>,
    end: Instant,
) -> Result<V::Answer> {
    let passage = Passage { flight, waiting: &|_| true };
    let answers = timeout_at(end, lane.vessel().carry(passage, std::slice::from_ref(ask))).await;
    drop(turn);
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

fn short() -> Error {
    Error::new(ErrorKind::Unknown, "the store's answer was too short")
}
