//! One row of callers: who is under way, who gathers, and who carries them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::gate::{Gate, InTurn};
use super::{Passage, STALE, Vessel, short};
use crate::clock::now;
use crate::engine::steps::FlightId;
use crate::{Result, Ticket};

/// One row of callers.
pub(super) struct Lane<V: Vessel> {
    runtime: Handle,
    vessel: Arc<V>,
    gate: Option<Arc<Gate>>,
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

pub(super) enum Boarding<V: Vessel> {
    Alone(V::Ask, FlightId, Turn<V>),
    /// With the time at which the request under way will have kept the others for long enough.
    Queued(Place<V>, Option<Instant>, oneshot::Receiver<Result<V::Answer>>),
}

impl<V: Vessel> Lane<V> {
    pub(super) fn new(runtime: Handle, vessel: Arc<V>, gate: Option<Arc<Gate>>) -> Self {
        Self { runtime, vessel, gate, state: Mutex::default() }
    }

    pub(super) fn vessel(&self) -> &V {
        &self.vessel
    }

    /// A request is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.state().under_way.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn board(self: &Arc<Self>, ask: V::Ask) -> Boarding<V> {
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
            turn.go_on(Start::Gathering);
        }
        Boarding::Queued(Place { lane: Arc::clone(self), number, left: false }, stale, answered)
    }

    /// Starts the next request although one is under way, if that one takes too long.
    pub(super) fn overtake(self: &Arc<Self>) {
        let mut state = self.state();
        let stale = state.stale_at().is_some_and(|stale| now() >= stale);
        if stale && !state.queue.is_empty() {
            let turn = state.start(self, false);
            drop(state);
            turn.go_on(Start::AtOnce);
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
pub(super) struct Turn<V: Vessel> {
    lane: Option<Arc<Lane<V>>>,
    number: u64,
}

impl<V: Vessel> Turn<V> {
    /// Carries those who gathered, until there are none.
    fn go_on(mut self, start: Start) {
        let Some(lane) = self.lane.take() else { return };
        let voyage = Voyage { lane: Arc::clone(&lane), number: self.number };
        lane.runtime.spawn(voyage.run(start));
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
            Turn { lane: Some(lane), number: self.number }.go_on(Start::Gathering);
        }
    }
}

/// How those who gathered begin to be carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Those who are about to ask come along.
    Gathering,
    /// They have waited for long enough. Otherwise one that overtakes could be overtaken before it leaves, again and
    /// again, on a runtime so busy that its turns take as long.
    AtOnce,
}

/// The task that carries those who gathered. Dropped with its runtime, it drops their answers.
struct Voyage<V: Vessel> {
    lane: Arc<Lane<V>>,
    number: u64,
}

impl<V: Vessel> Voyage<V> {
    async fn run(self, mut start: Start) {
        loop {
            let turn = match start {
                Start::Gathering => self.gather().await,
                Start::AtOnce => None,
            };
            start = Start::Gathering;
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
            drop(turn);
        }
    }

    /// Lets those come along who are about to ask, and waits for a turn at the gate, if there is one.
    async fn gather(&self) -> Option<InTurn<'_>> {
        tokio::task::yield_now().await;
        let gate = self.lane.gate.as_ref().filter(|_| self.is_awaited())?;
        let turn = gate.pass().await;
        if turn.is_some() && self.is_awaited() {
            // Those who were answered by the request before come along, too.
            tokio::task::yield_now().await;
        }
        turn
    }

    /// Whether it is still this one's turn and somebody waits. From now on the others count how long they are kept.
    fn is_awaited(&self) -> bool {
        let Some(mut state) = self.callers() else { return false };
        state.under_way = state.under_way.map(|under_way| UnderWay { since: now(), ..under_way });
        true
    }

    /// The lane, if it is still this one's turn and somebody waits; if nobody does, the turn is given back.
    fn callers(&self) -> Option<MutexGuard<'_, State<V>>> {
        let mut state = self.lane.state();
        if !state.is_under_way(self.number) {
            return None;
        }
        if state.queue.is_empty() {
            state.under_way = None;
            return None;
        }
        Some(state)
    }

    fn next(&self) -> Option<(FlightId, Vec<Queued<V>>)> {
        let mut state = self.callers()?;
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
pub(super) struct Place<V: Vessel> {
    lane: Arc<Lane<V>>,
    number: u64,
    /// It is known to be no longer queued.
    pub(super) left: bool,
}

impl<V: Vessel> Place<V> {
    fn find(&self, state: &State<V>) -> Option<usize> {
        state.queue.binary_search_by_key(&self.number, |queued| queued.number).ok()
    }

    /// When the request under way has kept this place for long enough; `None` once the place's own has left.
    pub(super) fn stale_at(&self) -> Option<Instant> {
        let state = self.lane.state();
        self.find(&state)?;
        state.stale_at()
    }

    /// `true` if it was still queued.
    pub(super) fn leave(&self) -> bool {
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
