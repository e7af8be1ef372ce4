//! How a thread waits for a call.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::runtime::Handle;
use tokio::task::coop;

use crate::{Error, ErrorKind, Result};

/// Upper bound of tokio's budget of a poll, which is 128: in a task, less than this is left.
const MORE_THAN_A_BUDGET: usize = 256;

thread_local! {
    /// Whether a call of this thread waits.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

/// Wakes one thread.
struct Parked {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

/// Whether the thread waits for a call, which must not be left to the runtime of that thread: it may be blocked by this.
pub(crate) fn is_waiting() -> bool {
    WAITS.get()
}

/// Whether the call of a waiting thread must not even begin: it would have to wait inside of a polled task, where [`wait`] refuses it.
pub(crate) fn is_refused() -> bool {
    WAITS.get() && is_in_polled_task()
}

/// Marks the thread as one that waits.
struct Mark(bool);

impl Mark {
    fn set() -> Self {
        Self(WAITS.replace(true))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        WAITS.set(self.0);
    }
}

/// For authors of stores, to connect without a runtime: blocks the thread until a call is done.
///
/// # Errors
/// That of the call; `Unsupported` if it would have to wait inside of a polled task of tokio.
pub fn wait<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    let mut call = pin!(call);
    let _mark = Mark::set();
    // Most calls are done at once: no thread is looked up for them.
    if let Poll::Ready(done) = call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return done;
    }
    if is_in_polled_task() {
        let detail = "a blocking call would have to wait inside of a task: await the call of the same name of the \
                      asynchronous store, or use `tokio::task::spawn_blocking`";
        return Err(Error::new(ErrorKind::Unsupported, detail));
    }
    let parked = Arc::new(Parked { thread: thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&parked));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = call.as_mut().poll(&mut context) {
            return done;
        }
        while !parked.woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}

/// Whether the thread polls a task of tokio at this moment. A task has a budget; threads of `spawn_blocking` and the inside of
/// `block_in_place` have none.
fn is_in_polled_task() -> bool {
    if Handle::try_current().is_err() {
        return false;
    }
    let mut context = Context::from_waker(Waker::noop());
    let mut taken = Vec::new();
    let mut has_budget = false;
    while !has_budget && taken.len() < MORE_THAN_A_BUDGET {
        match coop::poll_proceed(&mut context) {
            Poll::Ready(unit) => taken.push(unit),
            Poll::Pending => has_budget = true,
        }
    }
    // Each gives back what was left before it: the first one taken is the last to do so.
    while taken.pop().is_some() {}
    has_budget
}

/// Adds to the error of a call that could not wait what was called. Every other error has that already.
pub(super) fn in_operation(error: Error, operation: &'static str, name: &str) -> Error {
    if error.operation().is_some() { error } else { error.context(operation, "blocking", name) }
}
