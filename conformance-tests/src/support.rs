//! Helpers for the cases: bounded waiting, tasks, futures that are dropped half-way, names.

#![expect(clippy::disallowed_methods, reason = "a test plays the caller: it spawns tasks and owns runtimes")]

use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use stanchion_core::clock::{self, Instant};
use stanchion_core::{
    Detached, ErrorKind, FencingToken, HoldOptions, Kind, Mutex, MutexOptions, Name, Result, Store, Ticket,
    Ttl,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::Harness;
pub use crate::gaps::cannot_show;
pub use crate::stopwatch::{EPSILON, Stopwatch, timeout};

/// Maximum poll floor `P`.
pub const POLL_FLOOR: Duration = Duration::from_secs(1);
/// Maximum time until a dropped future has left nothing behind while the store answers ([C4]), with
/// ε.
///
/// [C4]: stanchion_core::contract#c4
pub const CANCELLED: Duration = Duration::from_secs(1).saturating_add(EPSILON);
/// A time limit within which a store answers unless the machine stands still. With a shorter limit,
/// a call may end as unknown ([C17]).
///
/// [C17]: stanchion_core::contract#c17
pub const BRIEF: Duration = Duration::from_millis(500);
/// Time limit for a call that ends at once in a correct store, but takes ten times as long or for
/// ever with the mistake.
pub const AT_ONCE: Duration = Duration::from_secs(2);
/// Maximum time of a queued release. Without that release, the object is free only after its lease,
/// or never if the lease is renewed. With the default lease, that takes at least ten times as long.
pub const QUEUED: Duration = Duration::from_secs(3);
/// Maximum delay by dead waiters in front, once ([C5]).
///
/// [C5]: stanchion_core::contract#c5
pub const DEAD_IN_FRONT: Duration = Duration::from_secs(2);
/// Maximum resolution of a store's clock, if it is coarser than ours.
pub const TICK: Duration = Duration::from_millis(2);
/// A future that was not woken for this long counts as waiting for another caller.
pub const IDLE: Duration = Duration::from_millis(150);

/// Returns the present time on the clock that deadlines are read from.
pub fn now() -> Instant {
    clock::now()
}

/// Asks until the outcome is known, one way or the other: the answer to a call with a short time
/// limit can be late ([C3], [C17]).
///
/// # Errors
/// The call's own, but not `Unknown` or `Unavailable`.
///
/// [C3]: stanchion_core::contract#c3
/// [C17]: stanchion_core::contract#c17
pub async fn definite<T, F: Future<Output = Result<T>>>(ask: impl Fn() -> F) -> Result<T> {
    let is_unsure =
        |error: &stanchion_core::Error| matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Unavailable);
    loop {
        match ask().await {
            Err(error) if is_unsure(&error) => {}
            answer => return answer,
        }
    }
}

/// Returns a unique name.
pub fn unique(what: &str) -> String {
    format!("{what}-{}", Ticket::random())
}

/// Returns a namespace that no other case uses. A harness whose user has a right to some namespaces
/// only gives it those that begin with `t`.
#[must_use]
pub fn tenant(what: &str) -> String {
    unique(&format!("tenant-{what}"))
}

/// Returns options for holds with a lease of `ttl` that is renewed.
pub fn leased(ttl: Duration) -> HoldOptions {
    let mut options = HoldOptions::default();
    options.ttl = Some(ttl);
    options
}

/// Returns a lease of a time in range.
pub fn lease_of(time: Duration) -> Ttl {
    Ttl::new(time).expect("a time from 100 ms to 24 h")
}

/// Returns a hold that was detached in a namespace that no store has.
pub fn foreign(kind: Kind) -> Detached {
    let (name, token) = (Name::new("foreign").expect("a name"), FencingToken::new(1).expect("a token"));
    Detached::new(kind, "not a namespace", &name, Ticket::detached(), token)
}

/// Returns options for holds that end after `ttl` without renewal. With the guard forgotten, such a
/// hold is like the hold of a dead holder.
pub fn unrenewed(ttl: Duration) -> HoldOptions {
    let mut options = leased(ttl);
    options.renew = false;
    options
}

/// Returns a lease so long that its end and `TTL/3 + ε` can be told apart, and that a hold is
/// renewed in time on a machine that stands still for seconds.
pub fn long_ttl(h: &dyn Harness) -> Duration {
    (h.ttl() * 3).max(Duration::from_secs(5))
}

/// `TTL·0.99 − max(20 ms, TTL/20)`, the `D − t0` of the contract.
pub fn belief(ttl: Duration) -> Duration {
    Ttl::new(ttl).expect("the harness's TTL is in range").belief()
}

/// Returns the output of a future that must end within `limit`.
pub async fn within<F: Future>(limit: Duration, what: &str, future: F) -> F::Output {
    timeout(limit, future).await.unwrap_or_else(|_| panic!("{what}: not within {limit:?}"))
}

/// Asserts that a future does not end within `time`. The caller may continue to await it.
pub async fn stays_pending<F: Future + Unpin>(time: Duration, what: &str, future: &mut F) {
    assert!(timeout(time, future).await.is_err(), "{what}: ended within {time:?}");
}

/// Calls `ask` until it returns `true`, which must happen within `limit`.
pub async fn eventually<F>(limit: Duration, what: &str, mut ask: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    // With a long limit, poll less often: other tests need the processor.
    let between = (limit / 200).clamp(Duration::from_millis(2), Duration::from_millis(250));
    let asking = async {
        while !ask().await {
            pause(between).await;
        }
    };
    within(limit, what, asking).await;
}

/// Runs `run` while polling a future that must not end meanwhile. Without polls, that future would
/// make no progress.
pub async fn beside<F, T>(waiting: &mut F, what: &str, run: impl Future<Output = T>) -> T
where
    F: Future + Unpin,
{
    tokio::select! {
        output = run => output,
        _ = waiting => panic!("{what}: it ended"),
    }
}

/// Asserts that a call with this time limit ends without success at its limit, neither earlier nor
/// much later ([C17]). The outcome of the call may be unknown if `or_unknown`; otherwise only if
/// the machine stood still meanwhile, and then the call is made again.
///
/// [C17]: stanchion_core::contract#c17
pub async fn ends_at_limit<T, F>(limit: Duration, or_unknown: bool, what: &str, call: impl Fn() -> F)
where
    F: Future<Output = Result<Option<T>>>,
{
    loop {
        let (start, watch) = (now(), Stopwatch::start());
        let ended = within(limit + EPSILON, "the limit", call()).await;
        let took = start.elapsed();
        let unknown = match ended {
            Ok(ended) => {
                assert!(ended.is_none(), "{what}: ended with success within {limit:?}");
                None
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unknown, "{what}, of {limit:?}: {error}");
                Some(error)
            }
        };
        assert!(took >= limit, "{what}, of {limit:?}: gave up {:?} early", limit.saturating_sub(took));
        match unknown {
            Some(error) if !or_unknown => assert_stood_still(start, &watch, &error),
            _ => return,
        }
    }
}

/// Returns the time since `start` in which the machine stood still. The stopwatch was started at
/// `start`.
pub fn stood_still(start: Instant, watch: &Stopwatch) -> Duration {
    start.elapsed().saturating_sub(watch.elapsed())
}

/// Asserts that a call that began at `start` has an unknown outcome because its answer was late,
/// and that it was late because the machine stood still.
pub fn assert_stood_still(start: Instant, watch: &Stopwatch, error: &stanchion_core::Error) {
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    let still = stood_still(start, watch);
    assert!(still >= EPSILON, "the machine stood still for {still:?} only: {error}");
}

/// Opens one mutex by two clients of a harness, like two processes.
pub async fn by_two_clients(h: &dyn Harness) -> (Arc<dyn Mutex>, Arc<dyn Mutex>) {
    let (first, second, name) = (h.store().await, h.store().await, unique("mutex"));
    let open = |store: Arc<dyn Store>| store.mutex(&name, MutexOptions::new()).expect("a mutex");
    (open(first), open(second))
}

/// Waits until so many acquisitions queue for a mutex.
pub async fn queue_of(mutex: &Arc<dyn Mutex>, waiters: u64, limit: Duration) {
    let what = format!("a queue of {waiters}");
    eventually(limit, &what, || async { mutex.inspect().await.expect("inspect").waiters == waiters }).await;
}

/// Takes a mutex whose release is queued, and gives it back.
pub async fn takes_its_turn(mutex: &Arc<dyn Mutex>) {
    let guard = within(QUEUED, "the release is queued", mutex.lock()).await.expect("lock");
    guard.release().await.expect("release");
}

/// Lets time pass, for a case whose scenario is the passing of time.
pub async fn pause(time: Duration) {
    clock::sleep(time).await;
}

/// Lets `time` pass on a machine that runs: the time in which it stood still does not count.
pub async fn run_for(time: Duration) {
    let _ = timeout(time, std::future::pending::<()>()).await;
}

/// Lets time pass until `moment`.
pub async fn pause_until(moment: Instant) {
    pause(moment.saturating_duration_since(now())).await;
}

/// Blocks the thread, like a task that never yields.
pub fn block(time: Duration) {
    thread::sleep(time);
}

/// A task that ends with the case. A panic of the task fails the case.
#[derive(Debug)]
pub struct Task<T>(JoinHandle<T>);

/// Runs `work` as a task of its own.
pub fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Task<T> {
    Task(tokio::spawn(work))
}

impl<T> Task<T> {
    /// Waits for the task's output.
    pub async fn join(mut self) -> T {
        match (&mut self.0).await {
            Ok(output) => output,
            Err(error) => resume_unwind(error.into_panic()),
        }
    }

    /// Returns whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Drops the task's future at its current await point, and waits until it is dropped.
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

/// Waits for the output of each task, in their order. The panic of any of them ends the wait.
pub async fn join_all<T>(tasks: Vec<Task<T>>) -> Vec<T> {
    futures_util::future::join_all(tasks.into_iter().map(Task::join)).await
}

/// A runtime that a case owns. It ends when this value is dropped.
#[derive(Debug)]
pub struct Lone(Runtime);

impl Lone {
    /// Makes a runtime that drives neither sockets nor timers.
    ///
    /// # Panics
    /// If the system refuses it.
    #[must_use]
    pub fn without_drivers() -> Self {
        Self(Builder::new_current_thread().build().expect("a single-threaded runtime"))
    }

    /// Runs a future to its end.
    pub fn drive<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }
}

/// Runs `work` on a thread with a single-threaded runtime of its own, and waits for it.
pub fn on_another_runtime<T: Send>(work: impl FnOnce(Lone) -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = Builder::new_current_thread().enable_all().build();
            work(Lone(runtime.expect("a single-threaded runtime")))
        });
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Runs `work` on a thread outside of any runtime, and waits for it.
///
/// # Errors
/// The payload of its panic.
pub fn on_bare_thread<T: Send>(work: impl FnOnce() -> T + Send) -> thread::Result<T> {
    thread::scope(|scope| scope.spawn(work).join())
}

/// Drives a future on a thread without a runtime, as an executor does that is not tokio.
pub fn drive_bare<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut cx) = (pin!(future), Context::from_waker(&waker));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        thread::park();
    }
}

/// The progress of a future before it was dropped.
#[derive(Debug)]
pub enum Cut<T> {
    /// It ended, with fewer polls.
    Ended(T),
    /// It was dropped after the given number of polls.
    Dropped,
    /// It waited for another caller, and was dropped after fewer polls.
    Waiting,
}

/// Polls a future at most `polls` times, when its waker asks for it, and drops it ([C4]).
///
/// [C4]: stanchion_core::contract#c4
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

/// Returns the kind of a call's error; `None` if the call succeeded.
pub fn kind_of<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A case that waits for its tasks tells what one of them found, however long the others take.
    #[tokio::test]
    #[should_panic(expected = "found")]
    async fn the_panic_of_any_task_ends_the_wait_for_all() {
        let tasks: Vec<Task<()>> =
            vec![spawn(std::future::pending()), spawn(async { resume_unwind(Box::new("found")) })];
        timeout(Duration::from_secs(5), join_all(tasks)).await.expect("the wait ends");
    }
}
