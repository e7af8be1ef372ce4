//! How a thread waits for a call.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::runtime::blocked_thread::{BlockedThread, is_ending};
use crate::{Error, ErrorKind, Result};

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

/// For authors of stores whose calls act when they are first polled, and are not driven by the
/// engine. Returns whether the call that is polled now will be refused: it is one of the blocking
/// face, and would have to wait inside of a polled task, or in a destructor of a thread that ends.
/// Such a call must do nothing and be `Pending`.
#[must_use]
pub fn is_refused() -> bool {
    BlockedThread::is_refused()
}

/// Returns the error of a call of the blocking face that is polled now and that must not wait.
pub(super) fn refused() -> Result<()> {
    if is_refused() {
        let detail = if is_ending() {
            "a blocking call would have to wait in the destructor of a thread-local variable: drop guards there, which \
             queues their releases"
        } else {
            "a blocking call would have to wait inside of a task: await the call of the same name of the \
             asynchronous store, or use `tokio::task::spawn_blocking`"
        };
        return Err(Error::new(ErrorKind::Unsupported, detail));
    }
    Ok(())
}

/// As [`wait`], for a call of that operation: the error of a call that could not wait has no
/// operation of its own.
pub(super) fn wait_in<T>(
    operation: &'static str,
    store: &'static str,
    name: &str,
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
    wait(call).map_err(|error| match error.operation() {
        Some(_) => error,
        None => error.context(operation, store, name),
    })
}

/// Blocks the thread until a call is done: to connect without a runtime, by a builder for instance.
///
/// # Errors
/// That of the call; `Unsupported` if it would have to wait inside of a polled task of tokio.
pub fn wait<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    let mut call = pin!(call);
    let _blocked = BlockedThread::mark();
    // Most calls are done at once: no thread is looked up for them.
    if let Poll::Ready(done) = call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return done;
    }
    refused()?;
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
