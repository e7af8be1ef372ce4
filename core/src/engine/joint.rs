//! Joins concurrent steps: while one request is under way, those who come gather, and leave together in the next.
//!
//! One caller alone sends its request by itself, without a hop. Whoever finds a request under way queues; when it has
//! landed, a task takes all who gathered, in the order of their arrival, and goes on for as long as there are more.
//! After a request of several the next one lets those first ask who are ready to run; nobody waits for a time.
//! Lanes are kept apart by runtime, so that nobody depends on a runtime that is blocked or has ended, and a request
//! whose caller does not poll it keeps the others for [`STALE`] at most.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::steps::{Answers, FlightId};
use crate::clock::now;
use crate::{Error, ErrorKind, Result, Ticket};

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

/// By runtime, and by the step's own lane; so few that to compare is cheaper than to hash.
type Lanes<V> = Vec<((Id, usize), Arc<Lane<V>>)>;

struct Lane<V: Vessel> {
    runtime: Handle,
    vessel: Arc<V>,
    state: Mutex<State<V>>,
}

struct State<V: Vessel> {
    under_way: Option<UnderWay>,
    /// The last one that left.
    flight: FlightId,
    /// Requests started and callers queued so far.
    count: u64,
    queue: VecDeque<Queued<V>>,
    /// The last request carried more than one: who comes now is likely not alone.
    crowded: bool,
}

/// The request under way.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    number: u64,
    since: Instant,
    /// It is polled by its only caller, or not.
    alone: bool,
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
            lanes.retain(|(_, lane)| lane.state().under_way.is_some());
        }
        let lane = Arc::new(Lane { runtime, vessel: Arc::clone(&self.vessel), state: Mutex::default() });
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
    let answers = timeout_at(end, lane.vessel.carry(passage, std::slice::from_ref(ask))).await;
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
    Alone(V::Ask, FlightId, Turn<V>),
    /// With the time at which the request under way will have kept the others for long enough.
    Queued(Place<V>, Option<Instant>, oneshot::Receiver<Result<V::Answer>>),
}

impl<V: Vessel> Lane<V> {
    fn state(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn board(self: &Arc<Self>, ask: V::Ask) -> Boarding<V> {
        let mut state = self.state();
        let turn = state.under_way.is_none().then(|| {
            let alone = !state.crowded;
            state.start(self, alone)
        });
        let turn = match turn {
            Some(turn) if !state.crowded => return Boarding::Alone(ask, state.next_flight(), turn),
            turn => turn,
        };
        state.count += 1;
        let number = state.count;
        let (answer, answered) = oneshot::channel();
        state.queue.push_back(Queued { number, ask, answer });
        let stale = state.stale_at();
        drop(state);
        if let Some(turn) = turn {
            turn.go_on();
        }
        Boarding::Queued(Place { lane: Arc::clone(self), number, left: false }, stale, answered)
    }

    /// Starts the next request although one is under way, if that one takes too long.
    fn overtake(self: &Arc<Self>) {
        let mut state = self.state();
        let stale = state.stale_at().is_some_and(|stale| now() >= stale);
        if stale && !state.queue.is_empty() {
            let turn = state.start(self, false);
            drop(state);
            turn.go_on();
        }
    }
}

impl<V: Vessel> State<V> {
    fn start(&mut self, lane: &Arc<Lane<V>>, alone: bool) -> Turn<V> {
        if self.under_way.is_some() {
            self.flight = first_flight();
        }
        self.count += 1;
        self.under_way = Some(UnderWay { number: self.count, since: now(), alone });
        Turn { lane: Some(Arc::clone(lane)), number: self.count }
    }

    fn next_flight(&mut self) -> FlightId {
        self.flight.number += 1;
        self.flight
    }

    fn is_under_way(&self, number: u64) -> bool {
        self.under_way.is_some_and(|under_way| under_way.number == number)
    }

    /// When the request under way has kept the others for long enough.
    fn stale_at(&self) -> Option<Instant> {
        let under_way = self.under_way.filter(|under_way| under_way.alone || !V::IN_TURN)?;
        Some(under_way.since + STALE)
    }
}

fn first_flight() -> FlightId {
    FlightId { lane: Ticket::random(), number: 0 }
}

impl<V: Vessel> Default for State<V> {
    fn default() -> Self {
        Self { under_way: None, flight: first_flight(), count: 0, queue: VecDeque::new(), crowded: false }
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
        if !state.is_under_way(self.number) {
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
        loop {
            // Those who are about to ask come first.
            tokio::task::yield_now().await;
            let Some((flight, batch)) = self.next() else { return };
            let (asks, waiting): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|queued| (queued.ask, queued.answer)).unzip();
            let waits = |index: usize| waiting.get(index).is_some_and(|caller| !caller.is_closed());
            let passage = Passage { flight, waiting: &waits };
            let mut answers = self.lane.vessel.carry(passage, &asks).await.into_iter();
            for caller in waiting {
                // A caller that has gone has no use for its answer.
                drop(caller.send(answers.next().unwrap_or_else(|| Err(short()))));
            }
        }
    }

    fn next(&self) -> Option<(FlightId, Vec<Queued<V>>)> {
        let mut state = self.lane.state();
        if !state.is_under_way(self.number) {
            return None;
        }
        if state.queue.is_empty() {
            state.under_way = None;
            return None;
        }
        state.under_way = Some(UnderWay { number: self.number, since: now(), alone: false });
        let count = state.queue.len().min(V::BATCH);
        state.crowded = count > 1;
        Some((state.next_flight(), state.queue.drain(..count).collect()))
    }
}

impl<V: Vessel> Drop for Voyage<V> {
    fn drop(&mut self) {
        let mut state = self.lane.state();
        if state.is_under_way(self.number) {
            state.under_way = None;
            state.queue.clear();
        }
    }
}

/// A place in the queue, given up when dropped.
struct Place<V: Vessel> {
    lane: Arc<Lane<V>>,
    number: u64,
    /// It is known to be no longer queued.
    left: bool,
}

impl<V: Vessel> Place<V> {
    fn find(&self, state: &State<V>) -> Option<usize> {
        state.queue.binary_search_by_key(&self.number, |queued| queued.number).ok()
    }

    /// When the request under way has kept this place for long enough; `None` once the place's own has left.
    fn stale_at(&self) -> Option<Instant> {
        let state = self.lane.state();
        self.find(&state)?;
        state.stale_at()
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
        if !self.left {
            self.leave();
        }
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
