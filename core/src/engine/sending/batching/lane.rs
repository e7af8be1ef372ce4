//! A lane: its request under way, the calls that queue behind it, and the task that sends them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::batched_step::{BatchContext, BatchedStep};
use crate::clock::now;
use crate::engine::contained::short;
use crate::spi::RequestId;
use crate::{Result, Ticket};

/// Time after which a request that is still under way delays the others no longer.
pub(super) const STALE: Duration = Duration::from_millis(25);

/// The calls of one step that can leave together.
pub(super) struct Lane<V: BatchedStep> {
    runtime: Handle,
    step: Arc<V>,
    state: Mutex<State<V>>,
}

struct State<V: BatchedStep> {
    under_way: Option<UnderWay>,
    /// The id of the last request that left. It is made when it is needed.
    request_id: Option<RequestId>,
    /// Number of requests started and calls queued so far.
    count: u64,
    queue: VecDeque<Queued<V>>,
    /// The last request carried several calls, so the next call is probably not alone.
    crowded: bool,
}

/// The request under way.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    number: u64,
    since: Instant,
    /// Its only caller polls it, instead of a task.
    alone: bool,
}

struct Queued<V: BatchedStep> {
    number: u64,
    ask: V::Ask,
    answer: oneshot::Sender<Result<V::Answer>>,
}

pub(super) enum Admission<V: BatchedStep> {
    Alone(V::Ask, RequestId, SendSlot<V>),
    /// With the time at which the request under way may be overtaken.
    Queued(QueueSlot<V>, Option<Instant>, oneshot::Receiver<Result<V::Answer>>),
}

impl<V: BatchedStep> Lane<V> {
    /// Makes a lane. Its requests follow `request_id`, of a lane that is not used any more.
    pub(super) fn new(runtime: Handle, step: Arc<V>, request_id: Option<RequestId>) -> Self {
        Self { runtime, step, state: Mutex::new(State { request_id, ..State::default() }) }
    }

    pub(super) fn step(&self) -> &V {
        &self.step
    }

    /// Gives the id of the last request away, for another lane; returns `None` if a request is under way. A caller that has
    /// found the lane before can use it all the same.
    pub(super) fn retire(&self) -> Option<Option<RequestId>> {
        let mut state = self.state();
        state.under_way.is_none().then(|| state.request_id.take())
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
            send_slot.spawn(Start::Gathering);
        }
        Admission::Queued(QueueSlot { lane: Arc::clone(self), number, left: false }, stale, answered)
    }

    /// Starts the next request although one is under way, if that one is stale.
    pub(super) fn overtake(self: &Arc<Self>) {
        let mut state = self.state();
        let stale = state.stale_at().is_some_and(|stale| now() >= stale);
        if stale && !state.queue.is_empty() {
            let send_slot = state.start(self, false);
            drop(state);
            send_slot.spawn(Start::AtOnce);
        }
    }
}

impl<V: BatchedStep> State<V> {
    fn start(&mut self, lane: &Arc<Lane<V>>, alone: bool) -> SendSlot<V> {
        if self.under_way.is_some() {
            self.request_id = None;
        }
        self.count += 1;
        self.under_way = Some(UnderWay { number: self.count, since: now(), alone });
        SendSlot { lane: Some(Arc::clone(lane)), number: self.count }
    }

    fn next_request_id(&mut self) -> RequestId {
        let first = || RequestId { lane: Ticket::random(), number: 0 };
        let request_id = self.request_id.get_or_insert_with(first);
        request_id.number += 1;
        *request_id
    }

    fn is_under_way(&self, number: u64) -> bool {
        self.under_way.is_some_and(|under_way| under_way.number == number)
    }

    /// Returns when the request under way may be overtaken.
    fn stale_at(&self) -> Option<Instant> {
        let under_way = self.under_way.filter(|under_way| under_way.alone || !V::IN_TURN)?;
        Some(under_way.since + STALE)
    }
}

impl<V: BatchedStep> Default for State<V> {
    fn default() -> Self {
        Self { under_way: None, request_id: None, count: 0, queue: VecDeque::new(), crowded: false }
    }
}

/// The right to have a request under way. Dropped, it starts the request of the queued calls.
pub(super) struct SendSlot<V: BatchedStep> {
    lane: Option<Arc<Lane<V>>>,
    number: u64,
}

impl<V: BatchedStep> SendSlot<V> {
    /// Spawns the task that sends the queued calls, until there are none.
    fn spawn(mut self, start: Start) {
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
            SendSlot { lane: Some(lane), number: self.number }.spawn(Start::Gathering);
        }
    }
}

/// How a task begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// It lets callers that are ready to run join first.
    Gathering,
    /// It sends at once. Otherwise a request that overtakes could itself be overtaken before it leaves, again and again, on
    /// a runtime so busy that a yield takes as long.
    AtOnce,
}

/// The task that sends the queued calls. Dropped with its runtime, it drops their answers.
struct BatchTask<V: BatchedStep> {
    lane: Arc<Lane<V>>,
    number: u64,
}

impl<V: BatchedStep> BatchTask<V> {
    async fn run(self, mut start: Start) {
        loop {
            if start == Start::Gathering {
                tokio::task::yield_now().await;
            }
            start = Start::Gathering;
            let Some((request_id, batch)) = self.next() else { return };
            let (asks, waiting): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|queued| (queued.ask, queued.answer)).unzip();
            let waits = |index: usize| waiting.get(index).is_some_and(|caller| !caller.is_closed());
            let context = BatchContext { request_id, waiting: &waits };
            let mut answers = self.lane.step.send(context, &asks).await.into_iter();
            for caller in waiting {
                // A caller that has gone needs no answer.
                drop(caller.send(answers.next().unwrap_or_else(|| Err(short()))));
            }
        }
    }

    /// Returns the lane if this task may still send and a call is queued. If none is queued, the task ends.
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

/// A call's slot in the queue, given up when dropped.
pub(super) struct QueueSlot<V: BatchedStep> {
    lane: Arc<Lane<V>>,
    number: u64,
    /// The call is known to be no longer queued.
    pub(super) left: bool,
}

impl<V: BatchedStep> QueueSlot<V> {
    fn find(&self, state: &State<V>) -> Option<usize> {
        state.queue.binary_search_by_key(&self.number, |queued| queued.number).ok()
    }

    /// Returns when the request under way may be overtaken; `None` once this call has left.
    pub(super) fn stale_at(&self) -> Option<Instant> {
        let state = self.lane.state();
        self.find(&state)?;
        state.stale_at()
    }

    /// Gives the slot up; `true` if the call was still queued.
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
