//! The requests of one lane: the batch under way, those that queue behind it, and the task that
//! sends them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::until_known;
use crate::clock::now;
use crate::engine::part_sizes::PartSizes;
use crate::runtime::contain_wake;
use crate::spi::{Answers, Lane, ProbeItems, Request, RequestId, Response, Steps, short};
use crate::{Result, Ticket};

/// An answer, and the times between which the store gave it.
#[derive(Debug)]
pub(crate) struct Timed<T> {
    pub(crate) answer: T,
    /// Just before the request was sent for the first time.
    pub(crate) sent: Instant,
    /// When the answer arrived.
    pub(crate) received: Instant,
}

type Answer = Result<Timed<Response>>;

/// Time after which a batch that is still under way delays the others no longer.
pub(super) const STALE: Duration = Duration::from_millis(25);

/// The requests of one runtime that can leave together.
pub(super) struct RequestQueue {
    runtime: Handle,
    steps: Arc<dyn Steps>,
    /// Of requests whose batches are in turn: how many entries a batch of that lane has at most.
    /// One batch leaves after the other, however long each takes: only a request that its own
    /// caller polls can be overtaken.
    in_turn: Option<(Arc<PartSizes>, Lane)>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    under_way: Option<UnderWay>,
    /// The id of the last batch that left. It is made when it is needed.
    last_id: Option<RequestId>,
    /// Number of batches started and requests queued so far.
    count: u64,
    queue: VecDeque<Queued>,
    /// The last batch had several entries, so the next request is probably not alone.
    crowded: bool,
}

/// The batch under way.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    number: u64,
    since: Instant,
    /// Its only caller polls it, instead of a task.
    alone: bool,
}

struct Queued {
    number: u64,
    request: Request,
    answer: oneshot::Sender<Answer>,
}

pub(super) enum Admission {
    Alone(Request, SendSlot),
    /// With the time at which the batch under way may be overtaken.
    Queued(QueueSlot, Option<Instant>, oneshot::Receiver<Answer>),
}

impl RequestQueue {
    /// Makes a queue. Its batches follow `last_id`, of a queue that is not used any more.
    pub(super) fn new(
        runtime: Handle,
        steps: Arc<dyn Steps>,
        in_turn: Option<(Arc<PartSizes>, Lane)>,
        last_id: Option<RequestId>,
    ) -> Self {
        Self { runtime, steps, in_turn, state: Mutex::new(State { last_id, ..State::default() }) }
    }

    /// Gives the id of the last batch away, for another queue; returns `None` if a batch is under
    /// way. A caller that has found the queue before can use it all the same.
    pub(super) fn retire(&self) -> Option<Option<RequestId>> {
        let mut state = self.state();
        state.under_way.is_none().then(|| state.last_id.take())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn admit(self: &Arc<Self>, mut request: Request) -> Admission {
        let mut state = self.state();
        let send_slot = state.under_way.is_none().then(|| {
            let alone = !state.crowded;
            state.start(self, alone)
        });
        let send_slot = match send_slot {
            Some(send_slot) if !state.crowded => {
                if self.in_turn.is_some() {
                    request.set_id(state.next_id());
                }
                return Admission::Alone(request, send_slot);
            }
            send_slot => send_slot,
        };
        state.count += 1;
        let number = state.count;
        let (answer, answered) = oneshot::channel();
        state.queue.push_back(Queued { number, request, answer });
        let stale = state.stale_at(self.in_turn.is_some());
        drop(state);
        if let Some(send_slot) = send_slot {
            send_slot.spawn(Start::Gathering);
        }
        Admission::Queued(QueueSlot { queue: Arc::clone(self), number, left: false }, stale, answered)
    }

    /// Starts the next batch although one is under way, if that one is stale.
    pub(super) fn overtake(self: &Arc<Self>) {
        let mut state = self.state();
        let stale = state.stale_at(self.in_turn.is_some()).is_some_and(|stale| now() >= stale);
        if stale && !state.queue.is_empty() {
            let send_slot = state.start(self, false);
            drop(state);
            send_slot.spawn(Start::AtOnce);
        }
    }
}

impl State {
    fn start(&mut self, queue: &Arc<RequestQueue>, alone: bool) -> SendSlot {
        if self.under_way.is_some() {
            // Batches of one sequence do not overlap.
            self.last_id = None;
        }
        self.count += 1;
        self.under_way = Some(UnderWay { number: self.count, since: now(), alone });
        SendSlot { queue: Some(Arc::clone(queue)), number: self.count }
    }

    fn next_id(&mut self) -> RequestId {
        let first = || RequestId { sequence: Ticket::random(), number: 0 };
        let id = self.last_id.get_or_insert_with(first);
        id.number += 1;
        *id
    }

    fn is_under_way(&self, number: u64) -> bool {
        self.under_way.is_some_and(|under_way| under_way.number == number)
    }

    /// Returns when the batch under way may be overtaken.
    fn stale_at(&self, in_turn: bool) -> Option<Instant> {
        let under_way = self.under_way.filter(|under_way| under_way.alone || !in_turn)?;
        Some(under_way.since + STALE)
    }
}

/// The right to have a batch under way. Dropped, it starts the batch of the queued requests.
pub(super) struct SendSlot {
    queue: Option<Arc<RequestQueue>>,
    number: u64,
}

impl SendSlot {
    /// Spawns the task that sends the queued requests, until there are none.
    fn spawn(mut self, start: Start) {
        let Some(queue) = self.queue.take() else { return };
        let task = BatchTask { queue: Arc::clone(&queue), number: self.number };
        queue.runtime.spawn(task.run(start));
    }
}

impl Drop for SendSlot {
    fn drop(&mut self) {
        let Some(queue) = self.queue.take() else { return };
        let mut state = queue.state();
        if !state.is_under_way(self.number) {
            return;
        }
        if state.queue.is_empty() {
            state.under_way = None;
        } else {
            drop(state);
            SendSlot { queue: Some(queue), number: self.number }.spawn(Start::Gathering);
        }
    }
}

/// How a task begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// It lets callers that are ready to run join first.
    Gathering,
    /// It sends at once. Otherwise a batch that overtakes could itself be overtaken before it
    /// leaves, again and again, on a runtime so busy that a yield takes as long.
    AtOnce,
}

/// The task that sends the queued requests. Dropped with its runtime, it drops their answers.
struct BatchTask {
    queue: Arc<RequestQueue>,
    number: u64,
}

impl BatchTask {
    async fn run(self, mut start: Start) {
        loop {
            if start == Start::Gathering {
                tokio::task::yield_now().await;
            }
            start = Start::Gathering;
            let Some(batch) = self.next() else { return };
            let steps = &*self.queue.steps;
            let end = batch.sent + Request::time_limit_of(&batch.requests, steps.request_timeout());
            let answers = steps.send(&batch.requests, end).await;
            if batch.is_in_doubt(&answers) {
                // The others leave meanwhile: in another sequence, since the store keeps the last
                // answer of each.
                let id = self.queue.state().last_id.take();
                self.queue.runtime.spawn(batch.retry(Arc::clone(&self.queue), id, answers));
            } else {
                batch.deliver(answers);
            }
        }
    }

    /// Takes the requests of the next batch, and their callers, if this task may still send. If
    /// none is queued, the task ends.
    fn next(&self) -> Option<Batch> {
        let mut state = self.queue.state();
        if !state.is_under_way(self.number) {
            return None;
        }
        if state.queue.is_empty() {
            state.under_way = None;
            return None;
        }
        state.under_way = Some(UnderWay { number: self.number, since: now(), alone: false });
        let most = self.queue.in_turn.as_ref().map_or(usize::MAX, |(sizes, lane)| sizes.most(*lane, now()));
        let count = fitting(&state.queue, self.queue.steps.maximum_positions()).min(most);
        state.crowded = count > 1;
        let id = self.queue.in_turn.as_ref().map(|_| state.next_id());
        let (mut requests, mut callers) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for Queued { mut request, answer, .. } in state.queue.drain(..count) {
            if let Some(id) = id {
                request.set_id(id);
            }
            requests.push(request);
            callers.push(answer);
        }
        Some(Batch { requests, callers, sent: now() })
    }
}

/// Requests that leave together, and their callers.
struct Batch {
    requests: Vec<Request>,
    callers: Vec<oneshot::Sender<Answer>>,
    sent: Instant,
}

impl Batch {
    fn waits(callers: &[oneshot::Sender<Answer>]) -> impl Fn(usize) -> bool + Sync {
        |index| callers.get(index).is_some_and(|caller| !caller.is_closed())
    }

    /// Whether it is to be sent again.
    fn is_in_doubt(&self, answers: &Answers<Response>) -> bool {
        until_known::is_in_doubt(&self.requests, answers, &Self::waits(&self.callers))
    }

    /// Sends it again until its outcome is known, and delivers that. Then its sequence, whose last
    /// id is `id`, is free.
    async fn retry(mut self, queue: Arc<RequestQueue>, id: Option<RequestId>, answers: Answers<Response>) {
        let waits = Self::waits(&self.callers);
        let answers =
            until_known::again(&*queue.steps, &mut self.requests, answers, self.sent, None, &waits).await;
        drop(waits);
        self.deliver(answers);
        let mut state = queue.state();
        state.last_id = state.last_id.or(id);
    }

    fn deliver(self, answers: Answers<Response>) {
        let (sent, received) = (self.sent, now());
        let mut answers = answers.into_iter();
        for caller in self.callers {
            let answer = answers.next().unwrap_or_else(|| Err(short()));
            let answer = answer.map(|answer| Timed { answer, sent, received });
            // A caller that has gone needs no answer.
            contain_wake(|| drop(caller.send(answer)));
        }
    }
}

/// Returns how many of the queued requests fit into one batch, at least one, so that other clients
/// of the store do not wait long for it.
fn fitting(queue: &VecDeque<Queued>, maximum_positions: usize) -> usize {
    let (mut entries, mut positions) = (0, 0);
    let fits = |queued: &&Queued| {
        let (more, more_positions) = size(&queued.request);
        entries += more;
        positions += more_positions;
        entries <= queued.request.kind().maximum_batch() && positions <= maximum_positions
    };
    queue.iter().take_while(fits).count().max(1)
}

/// Returns the number of items of a request, and of the positions that it names.
fn size(request: &Request) -> (usize, usize) {
    let Request::Probe(probe) = request else { return (1, 0) };
    let (ProbeItems::Insert(positions) | ProbeItems::Contains(positions)) = &probe.items;
    (positions.len() / probe.of.terms.shape.hashes() as usize, positions.len())
}

impl Drop for BatchTask {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        if state.is_under_way(self.number) {
            state.under_way = None;
            let queued = std::mem::take(&mut state.queue);
            drop(state);
            // Each wakes its caller.
            queued.into_iter().for_each(|queued| contain_wake(|| drop(queued)));
        }
    }
}

/// A request's slot in the queue, given up when dropped.
pub(super) struct QueueSlot {
    queue: Arc<RequestQueue>,
    number: u64,
    /// The request is known to be no longer queued.
    pub(super) left: bool,
}

impl QueueSlot {
    fn find(&self, state: &State) -> Option<usize> {
        state.queue.binary_search_by_key(&self.number, |queued| queued.number).ok()
    }

    /// Returns when the batch under way may be overtaken; `None` once this request has left.
    pub(super) fn stale_at(&self) -> Option<Instant> {
        let state = self.queue.state();
        self.find(&state)?;
        state.stale_at(self.queue.in_turn.is_some())
    }

    /// Gives the slot up; `true` if the request was still queued.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.queue.state();
        let index = self.find(&state);
        let queued = index.and_then(|index| state.queue.remove(index));
        drop(state);
        queued.is_some()
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        if !self.left {
            self.leave();
        }
    }
}

impl fmt::Debug for RequestQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("RequestQueue")
            .field("under_way", &state.under_way)
            .field("queued", &state.queue.len())
            .finish_non_exhaustive()
    }
}
