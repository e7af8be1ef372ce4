//! What the cases share: bounded waiting, tasks, futures dropped half-way, names.

#![expect(clippy::disallowed_methods, reason = "a test plays the caller: it spawns tasks and owns runtimes")]

use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::pin;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use stanchion_core::clock::{self, Instant};
use stanchion_core::{ErrorKind, HoldOptions, Result, Ticket, Ttl};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::Harness;
pub use crate::gaps::cannot_show;
pub use crate::stopwatch::{EPSILON, Stopwatch, timeout};

/// The most the poll floor `P` can be.
pub const POLL_FLOOR: Duration = Duration::from_secs(1);
/// How long a dropped future may leave something behind while the store answers (C4), with ε.
pub const CANCELLED: Duration = Duration::from_secs(1).saturating_add(EPSILON);
/// A time limit within which a busy store answers too: after a shorter one a call may end as unknown (C17).
pub const BRIEF: Duration = Duration::from_millis(500);
/// For what ends at once where the mistake makes it wait ten times as long, or for ever.
pub const AT_ONCE: Duration = Duration::from_secs(2);
/// How long a queued release may take: without it the lease frees what was dropped, or nothing does, since it is renewed.
/// That is ten times as long and more with the lease of holds without options.
pub const QUEUED: Duration = Duration::from_secs(3);
/// What dead waiters in front may cost, once (C5).
pub const DEAD_IN_FRONT: Duration = Duration::from_secs(2);
/// How much coarser than ours a store's clock may be.
pub const TICK: Duration = Duration::from_millis(2);
/// A future that was not woken for this long is taken to be waiting for others.
pub const IDLE: Duration = Duration::from_millis(150);

/// Now, by the clock that deadlines are read from.
pub fn now() -> Instant {
    clock::now()
}

/// A name nobody else uses.
pub fn unique(what: &str) -> String {
    format!("{what}-{}", Ticket::random())
}

/// Holds with a lease of that length, renewed.
pub fn leased(ttl: Duration) -> HoldOptions {
    let mut options = HoldOptions::default();
    options.ttl = Some(ttl);
    options
}

/// Holds that end after that time: with the guard forgotten, what a holder's death leaves.
pub fn unrenewed(ttl: Duration) -> HoldOptions {
    let mut options = leased(ttl);
    options.renew = false;
    options
}

/// A lease so long that its end and `TTL/3 + ε` can be told apart, and that a hold is renewed in time on a machine that
/// stands still for seconds.
pub fn long_ttl(h: &dyn Harness) -> Duration {
    (h.ttl() * 3).max(Duration::from_secs(5))
}

/// `TTL·0.99 − max(20 ms, TTL/20)`, the `D − t0` of the contract.
pub fn belief(ttl: Duration) -> Duration {
    Ttl::new(ttl).expect("the harness's TTL is in range").belief()
}

/// The output of a future that must end within `limit`.
pub async fn within<F: Future>(limit: Duration, what: &str, future: F) -> F::Output {
    timeout(limit, future).await.unwrap_or_else(|_| panic!("{what}: not within {limit:?}"))
}

/// Asserts that a future does not end for a time; it may be awaited further.
pub async fn stays_pending<F: Future + Unpin>(time: Duration, what: &str, future: &mut F) {
    assert!(timeout(time, future).await.is_err(), "{what}: ended within {time:?}");
}

/// Asks until the answer is yes, which must come within `limit`.
pub async fn eventually<F>(limit: Duration, what: &str, mut ask: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    // Where much time is left, others need the processor more.
    let between = (limit / 200).clamp(Duration::from_millis(2), Duration::from_millis(250));
    let asking = async {
        while !ask().await {
            pause(between).await;
        }
    };
    within(limit, what, asking).await;
}

/// Runs beside a future that must not end meanwhile. What a caller does not poll makes no progress, however long one
/// waits for its traces.
pub async fn beside<F, T>(waiting: &mut F, what: &str, run: impl Future<Output = T>) -> T
where
    F: Future + Unpin,
{
    tokio::select! {
        output = run => output,
        _ = waiting => panic!("{what}: it ended"),
    }
}

/// Lets time pass where the passing is the scenario.
pub async fn pause(time: Duration) {
    clock::sleep(time).await;
}

/// Lets time pass until a moment.
pub async fn pause_until(moment: Instant) {
    pause(moment.saturating_duration_since(now())).await;
}

/// Blocks the thread, as a task that never yields does.
pub fn block(time: Duration) {
    thread::sleep(time);
}

/// A task whose panic becomes the case's, and which ends with it.
#[derive(Debug)]
pub struct Task<T>(JoinHandle<T>);

/// Runs work as a task of its own.
pub fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Task<T> {
    Task(tokio::spawn(work))
}

impl<T> Task<T> {
    /// Waits for its output.
    pub async fn join(mut self) -> T {
        match (&mut self.0).await {
            Ok(output) => output,
            Err(error) => resume_unwind(error.into_panic()),
        }
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Drops the task's future where it stands and waits until that has happened.
    pub async fn cancel(mut self) {
        self.0.abort();
        let _ = (&mut self.0).await;
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for the output of each, in their order.
pub async fn join_all<T>(tasks: Vec<Task<T>>) -> Vec<T> {
    let mut outputs = Vec::with_capacity(tasks.len());
    for task in tasks {
        outputs.push(task.join().await);
    }
    outputs
}

/// A runtime that a case owns: it ends when this is dropped.
#[derive(Debug)]
pub struct Lone(Runtime);

impl Lone {
    /// Runs a future to its end.
    pub fn drive<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }
}

/// Runs work on a thread with a single-threaded runtime of its own, and waits for it.
pub fn on_another_runtime<T: Send>(work: impl FnOnce(Lone) -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = Builder::new_current_thread().enable_all().build();
            work(Lone(runtime.expect("a single-threaded runtime")))
        });
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Runs work on a thread outside of any runtime, and waits for it.
///
/// # Errors
/// The payload of its panic.
pub fn on_bare_thread<T: Send>(work: impl FnOnce() -> T + Send) -> thread::Result<T> {
    thread::scope(|scope| scope.spawn(work).join())
}

/// How far a future came before it was dropped.
#[derive(Debug)]
pub enum Cut<T> {
    /// To its end, in fewer polls.
    Ended(T),
    /// So many polls.
    Dropped,
    /// Fewer polls: it waited for others and was dropped there.
    Waiting,
}

/// Polls a future at most so many times, as its waker asks for it, and drops it (C4).
pub async fn drop_after<F: Future>(polls: u32, future: F) -> Cut<F::Output> {
    if polls == 0 {
        return Cut::Dropped;
    }
    let mut future = pin!(future);
    let mut left = polls;
    let polled = poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Cut::Ended(output));
        }
        left -= 1;
        if left == 0 { Poll::Ready(Cut::Dropped) } else { Poll::Pending }
    });
    timeout(IDLE, polled).await.unwrap_or(Cut::Waiting)
}

/// Polls a future once.
pub async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    poll_fn(|cx| match std::pin::Pin::new(&mut *future).poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// The kind of the error that a call must end with.
pub fn kind_of<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}
