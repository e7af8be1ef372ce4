//! Where a caller's call runs, and what becomes of it in a forked child.

use std::future::poll_fn;
use std::mem::forget;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

use crate::clock::is_real;

/// What calls need to know of the store object that they are made on.
#[derive(Debug)]
pub(crate) struct CallRuntime {
    /// The runtime of the engine's thread; `None` in tests that drive the engine themselves.
    pub(crate) runtime: Option<Handle>,
    /// The process that opened the store.
    pub(crate) process: u32,
}

impl CallRuntime {
    pub(crate) fn new(runtime: Option<Handle>) -> Self {
        Self { runtime, process: std::process::id() }
    }

    /// Returns whether this process is a forked child of the one that opened the store.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// Makes a call on the runtime that polls it; on that of the engine's thread if there is none, or one with a clock of its own,
    /// as a test with paused time has.
    pub(crate) async fn call<T>(&self, work: impl Future<Output = T>) -> T {
        let mut call = Call { call_runtime: self, work: Some(Box::pin(work)) };
        poll_fn(|cx| call.poll(cx)).await
    }
}

/// A call under way. A forked child that drops one forgets it: it may have locked what the child cannot unlock, and own sockets
/// that are the parent's, too (C1).
struct Call<'a, F> {
    call_runtime: &'a CallRuntime,
    work: Option<Pin<Box<F>>>,
}

impl<F: Future> Call<'_, F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let is_usable = Handle::try_current().is_ok() && is_real();
        let other = self.call_runtime.runtime.as_ref().filter(|_| !is_usable);
        let entered = other.map(Handle::enter);
        let polled = work.as_mut().poll(cx);
        if polled.is_ready() {
            self.work = None;
        }
        drop(entered);
        polled
    }
}

impl<F> Drop for Call<'_, F> {
    fn drop(&mut self) {
        if self.work.is_some() && self.call_runtime.is_forked() {
            forget(self.work.take());
        }
    }
}
