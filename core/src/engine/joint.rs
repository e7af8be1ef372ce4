//! Joins concurrent steps: while one request is under way, those who come gather, and leave together in the next.
//!
//! One caller alone sends its request by itself, without a hop. Whoever finds a request under way queues; when it has
//! landed, a task takes all who gathered, in the order of their arrival, and goes on for as long as there are more.
//! Lanes are kept apart by runtime, so that nobody depends on a runtime that is blocked or has ended, and a request
//! whose caller does not poll it keeps the others for [`STALE`] at most.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::steps::Answers;
use crate::clock::now;
use crate::{Error, ErrorKind, Result};

/// A step that can carry many callers' requests at once.
#[async_trait]
pub(crate) trait Vessel: fmt::Debug + Send + Sync + 'static {
    type Ask: Send + Sync + 'static;
    type Answer: Send + 'static;

    /// Requests of one lane can leave together.
    fn lane(&self, ask: &Self::Ask) -> usize;

    /// One request for all; an answer for each, in order.
    async fn carry(&self, asks: &[Self::Ask]) -> Answers<Self::Answer>;
}

/// Requests of one call at most, so that other clients of the store are not kept waiting for long.
const BATCH: usize = 128;
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

/// By runtime, and by the step's own lane.
type Lanes<V> = HashMap<(Id, usize), Arc<Lane<V>>>;

struct Lane<V: Vessel> {
    runtime: Handle,
    vessel: Arc<V>,
    state: Mutex<State<V>>,
}

struct State<V: Vessel> {
    /// The request under way: its number, and since when.
    under_way: Option<(u64, Instant)>,
    /// Requests started and callers queued so far.
    count: u64,
    queue: VecDeque<Queued<V>>,
}

struct Queued<V: Vessel> {
    number: u64,
    ask: V::Ask,
    answer: oneshot::Sender<Result<V::Answer>>,
}

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
        let (place, mut answer) = match lane.board(ask) {
            Boarding::Alone(ask, turn) => return alone(&lane, &ask, turn, end).await,
            Boarding::Queued(place, answer) => (place, answer),
        };
        loop {
            let stale = place.stale_at();
            let answered = timeout_at(stale.map_or(end, |stale| stale.min(end)), &mut answer).await;
            match answered {
                Ok(Ok(answer)) => return answer,
                Ok(Err(_)) => return Err(Error::new(ErrorKind::Unknown, "the request was dropped half way")),
                Err(_) if now() >= end => return Err(unanswered(place.leave())),
                Err(_) => lane.overtake(),
            }
        }
    }

    fn lane(&self, ask: &V::Ask) -> Result<Arc<Lane<V>>> {
        let runtime = Handle::try_current()
            .map_err(|error| Error::new(ErrorKind::Unavailable, "there is no runtime").with_source(error))?;
        let key = (runtime.id(), self.vessel.lane(ask));
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(&key) {
            return Ok(Arc::clone(lane));
        }
        if lanes.len() >= LANES {
            lanes.retain(|_, lane| lane.state().under_way.is_some());
        }
        let lane = Arc::new(Lane { runtime, vessel: Arc::clone(&self.vessel), state: Mutex::default() });
        lanes.insert(key, Arc::clone(&lane));
        Ok(lane)
    }
}

async fn alone<V: Vessel>(lane: &Lane<V>, ask: &V::Ask, turn: Turn<V>, end: Instant) -> Result<V::Answer> {
    let answers = timeout_at(end, lane.vessel.carry(std::slice::from_ref(ask))).await;
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

enum Boarding<V: Vessel> {
    Alone(V::Ask, Turn<V>),
    Queued(Place<V>, oneshot::Receiver<Result<V::Answer>>),
}

impl<V: Vessel> Lane<V> {
    fn state(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn board(self: &Arc<Self>, ask: V::Ask) -> Boarding<V> {
        let mut state = self.state();
        if state.under_way.is_none() {
            let turn = state.start(self);
            return Boarding::Alone(ask, turn);
        }
        state.count += 1;
        let number = state.count;
        let (answer, answered) = oneshot::channel();
        state.queue.push_back(Queued { number, ask, answer });
        Boarding::Queued(Place { lane: Arc::clone(self), number }, answered)
    }

    /// Starts the next request although one is under way, if that one takes too long.
    fn overtake(self: &Arc<Self>) {
        let mut state = self.state();
        let stale = state.under_way.is_some_and(|(_, since)| now() >= since + STALE);
        if stale && !state.queue.is_empty() {
            let turn = state.start(self);
            drop(state);
            turn.go_on();
        }
    }
}

impl<V: Vessel> State<V> {
    fn start(&mut self, lane: &Arc<Lane<V>>) -> Turn<V> {
        self.count += 1;
        self.under_way = Some((self.count, now()));
        Turn { lane: Some(Arc::clone(lane)), number: self.count }
    }
}

impl<V: Vessel> Default for State<V> {
    fn default() -> Self {
        Self { under_way: None, count: 0, queue: VecDeque::new() }
    }
}

/// The right to have a request under way. Given back, it goes on with those who gathered.
struct Turn<V: Vessel> {
    lane: Option<Arc<Lane<V>>>,
    number: u64,
}

impl<V: Vessel> Turn<V> {
    /// Carries those who gathered, until there are none.
    fn go_on(mut self) {
        let Some(lane) = self.lane.take() else { return };
        let voyage = Voyage { lane: Arc::clone(&lane), number: self.number };
        lane.runtime.spawn(voyage.run());
    }
}

impl<V: Vessel> Drop for Turn<V> {
    fn drop(&mut self) {
        let Some(lane) = self.lane.take() else { return };
        let mut state = lane.state();
        if state.under_way.is_none_or(|(number, _)| number != self.number) {
            return;
        }
        if state.queue.is_empty() {
            state.under_way = None;
        } else {
            drop(state);
            Turn { lane: Some(lane), number: self.number }.go_on();
        }
    }
}

/// The task that carries those who gathered. Dropped with its runtime, it drops their answers.
struct Voyage<V: Vessel> {
    lane: Arc<Lane<V>>,
    number: u64,
}

impl<V: Vessel> Voyage<V> {
    async fn run(self) {
        while let Some(batch) = self.next() {
            let (asks, waiting): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|queued| (queued.ask, queued.answer)).unzip();
            let mut answers = self.lane.vessel.carry(&asks).await.into_iter();
            for caller in waiting {
                // A caller that has gone has no use for its answer.
                drop(caller.send(answers.next().unwrap_or_else(|| Err(short()))));
            }
        }
    }

    fn next(&self) -> Option<Vec<Queued<V>>> {
        let mut state = self.lane.state();
        if state.under_way.is_none_or(|(number, _)| number != self.number) {
            return None;
        }
        if state.queue.is_empty() {
            state.under_way = None;
            return None;
        }
        state.under_way = Some((self.number, now()));
        let count = state.queue.len().min(BATCH);
        Some(state.queue.drain(..count).collect())
    }
}

impl<V: Vessel> Drop for Voyage<V> {
    fn drop(&mut self) {
        let mut state = self.lane.state();
        if state.under_way.is_some_and(|(number, _)| number == self.number) {
            state.under_way = None;
            state.queue.clear();
        }
    }
}

/// A place in the queue, given up when dropped.
struct Place<V: Vessel> {
    lane: Arc<Lane<V>>,
    number: u64,
}

impl<V: Vessel> Place<V> {
    fn find(&self, state: &State<V>) -> Option<usize> {
        state.queue.binary_search_by_key(&self.number, |queued| queued.number).ok()
    }

    /// When the request under way has kept this place for long enough; `None` once the place's own has left.
    fn stale_at(&self) -> Option<Instant> {
        let state = self.lane.state();
        self.find(&state)?;
        state.under_way.map(|(_, since)| since + STALE)
    }

    /// `true` if it was still queued.
    fn leave(&self) -> bool {
        let mut state = self.lane.state();
        let index = self.find(&state);
        index.and_then(|index| state.queue.remove(index)).is_some()
    }
}

impl<V: Vessel> Drop for Place<V> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<V: Vessel> fmt::Debug for Lane<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Lane")
            .field("under_way", &state.under_way)
            .field("queued", &state.queue.len())
            .finish_non_exhaustive()
    }
}
