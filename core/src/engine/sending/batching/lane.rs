//! One row of callers: who is under way, who gathers, and who carries them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::batched_step::{BatchContext, BatchedStep, short};
use super::exclusive_send::{ExclusiveSend, ExclusiveTurn, STALE};
use crate::clock::now;
use crate::steps::RequestId;
use crate::{Result, Ticket};

/// One row of callers.
pub(super) struct Lane<V: BatchedStep> {
    runtime: Handle,
    step: Arc<V>,
    exclusive: Option<Arc<ExclusiveSend>>,
    state: Mutex<State<V>>,
}

struct State<V: BatchedStep> {
    under_way: Option<UnderWay>,
    /// The last one that left.
    request_id: RequestId,
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

struct Queued<V: BatchedStep> {
    number: u64,
    ask: V::Ask,
    answer: oneshot::Sender<Result<V::Answer>>,
}

pub(super) enum Admission<V: BatchedStep> {
    Alone(V::Ask, RequestId, SendSlot<V>),
    /// With the time at which the request under way will have kept the others for long enough.
    Queued(QueueSlot<V>, Option<Instant>, oneshot::Receiver<Result<V::Answer>>),
}

impl<V: BatchedStep> Lane<V> {
    pub(super) fn new(runtime: Handle, step: Arc<V>, exclusive: Option<Arc<ExclusiveSend>>) -> Self {
        Self { runtime, step, exclusive, state: Mutex::default() }
    }

    pub(super) fn step(&self) -> &V {
        &self.step
    }

    /// A request is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.state().under_way.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn admit(self: &Arc<Self>, ask: V::Ask) -> Admission<V> {
        let mut state = self.state();
        let send_slot = state.under_way.is_none().then(|| {
            let alone = !state.crowded;
            state.start(self, alone)
        });
        let send_slot = match send_slot {
            Some(send_slot) if !state.crowded => {
                return Admission::Alone(ask, state.next_request_id(), send_slot);
            }
            send_slot => send_slot,
        };
        state.count += 1;
        let number = state.count;
        let (answer, answered) = oneshot::channel();
        state.queue.push_back(Queued { number, ask, answer });
        let stale = state.stale_at();
        drop(state);
        if let Some(send_slot) = send_slot {
            send_slot.go_on(Start::Gathering);
        }
        Admission::Queued(QueueSlot { lane: Arc::clone(self), number, left: false }, stale, answered)
    }

    /// Starts the next request although one is under way, if that one takes too long.
    pub(super) fn overtake(self: &Arc<Self>) {
        let mut state = self.state();
        let stale = state.stale_at().is_some_and(|stale| now() >= stale);
        if stale && !state.queue.is_empty() {
            let send_slot = state.start(self, false);
            drop(state);
            send_slot.go_on(Start::AtOnce);
        }
    }
}

impl<V: BatchedStep> State<V> {
    fn start(&mut self, lane: &Arc<Lane<V>>, alone: bool) -> SendSlot<V> {
        if self.under_way.is_some() {
            self.request_id = first_request_id();
        }
        self.count += 1;
        self.under_way = Some(UnderWay { number: self.count, since: now(), alone });
        SendSlot { lane: Some(Arc::clone(lane)), number: self.count }
    }

    fn next_request_id(&mut self) -> RequestId {
        self.request_id.number += 1;
        self.request_id
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

fn first_request_id() -> RequestId {
    RequestId { lane: Ticket::random(), number: 0 }
}

impl<V: BatchedStep> Default for State<V> {
    fn default() -> Self {
        Self {
            under_way: None,
            request_id: first_request_id(),
            count: 0,
            queue: VecDeque::new(),
            crowded: false,
        }
    }
}

/// The right to have a request under way. Given back, it goes on with those who gathered.
pub(super) struct SendSlot<V: BatchedStep> {
    lane: Option<Arc<Lane<V>>>,
    number: u64,
}

impl<V: BatchedStep> SendSlot<V> {
    /// Carries those who gathered, until there are none.
    fn go_on(mut self, start: Start) {
        let Some(lane) = self.lane.take() else { return };
        let task = BatchTask { lane: Arc::clone(&lane), number: self.number };
        lane.runtime.spawn(task.run(start));
    }
}

impl<V: BatchedStep> Drop for SendSlot<V> {
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
            SendSlot { lane: Some(lane), number: self.number }.go_on(Start::Gathering);
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
struct BatchTask<V: BatchedStep> {
    lane: Arc<Lane<V>>,
    number: u64,
}

impl<V: BatchedStep> BatchTask<V> {
    async fn run(self, mut start: Start) {
        loop {
            let send_slot = match start {
                Start::Gathering => self.gather().await,
                Start::AtOnce => None,
            };
            start = Start::Gathering;
            let Some((request_id, batch)) = self.next() else { return };
            let (asks, waiting): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|queued| (queued.ask, queued.answer)).unzip();
            let waits = |index: usize| waiting.get(index).is_some_and(|caller| !caller.is_closed());
            let context = BatchContext { request_id, waiting: &waits };
            let mut answers = self.lane.step.send(context, &asks).await.into_iter();
            for caller in waiting {
                // A caller that has gone has no use for its answer.
                drop(caller.send(answers.next().unwrap_or_else(|| Err(short()))));
            }
            drop(send_slot);
        }
    }

    /// Lets those come along who are about to ask, and waits for a send_slot at the exclusive, if there is one.
    async fn gather(&self) -> Option<ExclusiveTurn<'_>> {
        tokio::task::yield_now().await;
        let exclusive = self.lane.exclusive.as_ref().filter(|_| self.is_awaited())?;
        let send_slot = exclusive.pass().await;
        if send_slot.is_some() && self.is_awaited() {
            // Those who were answered by the request before come along, too.
            tokio::task::yield_now().await;
        }
        send_slot
    }

    /// Whether it is still this one's send_slot and somebody waits. From now on the others count how long they are kept.
    fn is_awaited(&self) -> bool {
        let Some(mut state) = self.callers() else { return false };
        state.under_way = state.under_way.map(|under_way| UnderWay { since: now(), ..under_way });
        true
    }

    /// The lane, if it is still this one's send_slot and somebody waits; if nobody does, the send_slot is given back.
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

    fn next(&self) -> Option<(RequestId, Vec<Queued<V>>)> {
        let mut state = self.callers()?;
        state.under_way = Some(UnderWay { number: self.number, since: now(), alone: false });
        let count = state.queue.len().min(V::BATCH);
        state.crowded = count > 1;
        Some((state.next_request_id(), state.queue.drain(..count).collect()))
    }
}

impl<V: BatchedStep> Drop for BatchTask<V> {
    fn drop(&mut self) {
        let mut state = self.lane.state();
        if state.is_under_way(self.number) {
            state.under_way = None;
            state.queue.clear();
        }
    }
}

/// A slot in the queue, given up when dropped.
pub(super) struct QueueSlot<V: BatchedStep> {
    lane: Arc<Lane<V>>,
    number: u64,
    /// It is known to be no longer queued.
    pub(super) left: bool,
}

impl<V: BatchedStep> QueueSlot<V> {
    fn find(&self, state: &State<V>) -> Option<usize> {
        state.queue.binary_search_by_key(&self.number, |queued| queued.number).ok()
    }

    /// When the request under way has kept this slot for long enough; `None` once the slot's own has left.
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

impl<V: BatchedStep> Drop for QueueSlot<V> {
    fn drop(&mut self) {
        if !self.left {
            self.leave();
        }
    }
}

impl<V: BatchedStep> fmt::Debug for Lane<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Lane")
            .field("under_way", &state.under_way)
            .field("queued", &state.queue.len())
            .finish_non_exhaustive()
    }
}
