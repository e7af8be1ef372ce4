//! Where a caller's call runs, and what becomes of it in a forked child.

use std::collections::VecDeque;
use std::mem::forget;
use std::panic::catch_unwind;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError, TryLockError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Handle, Id};

use crate::clock::is_real;
use crate::runtime::blocked_thread::BlockedThread;
use crate::runtime::runtime_mark::RuntimeMark;

/// What calls need to know of the store object that they are made on.
#[derive(Debug)]
pub(crate) struct CallRuntime {
    /// The runtime of the engine's thread; `None` in tests that drive the engine themselves.
    pub(crate) runtime: Option<Handle>,
    /// The process that opened the store.
    pub(crate) process: u32,
    callers: Mutex<Callers>,
}

/// The runtimes of the callers.
#[derive(Debug, Default)]
struct Callers {
    /// The one that has connections of its own, until it ends (C28).
    chosen: Option<(Id, RuntimeMark)>,
    /// The last ones that cannot have any.
    unfit: VecDeque<Id>,
}

/// Maximum number of unfit runtimes that are remembered: another one is looked at again.
const MAX_UNFIT: usize = 64;

impl CallRuntime {
    pub(crate) fn new(runtime: Option<Handle>) -> Self {
        Self { runtime, process: std::process::id(), callers: Mutex::default() }
    }

    /// Returns whether this process is a forked child of the one that opened the store.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// Runs a call on the polling runtime if that runtime owns the callers' connections, otherwise
    /// on the engine's; on the engine's, too, if the polling runtime has a clock of its own, as a
    /// test with paused time has.
    pub(crate) fn call<F: Future>(&self, work: F) -> Call<'_, F> {
        Call {
            call_runtime: self,
            work: Some(Box::pin(work)),
            polled_on: None,
            by_engine: false,
            has_begun: false,
        }
    }

    /// Makes a call on the runtime of the engine's thread, if there is one, whatever polls it.
    pub(crate) fn call_by_engine<F: Future>(&self, work: F) -> Call<'_, F> {
        Call {
            call_runtime: self,
            work: Some(Box::pin(work)),
            polled_on: None,
            by_engine: true,
            has_begun: false,
        }
    }

    /// Whether calls may run on the current runtime, whose id this is. The first that asks gets
    /// connections of its own, if it can drive them; when it has ended, the next one that asks.
    fn is_chosen(&self, current: Id) -> bool {
        let Some(engine) = &self.runtime else { return true };
        if engine.id() == current {
            return true;
        }
        let mut callers = match self.callers.try_lock() {
            Ok(callers) => callers,
            // Another thread of its parent may have held the lock at the fork. The call itself
            // refuses a forked child.
            Err(TryLockError::WouldBlock) if self.is_forked() => return true,
            Err(_) => self.callers.lock().unwrap_or_else(PoisonError::into_inner),
        };
        if let Some((id, mark)) = &callers.chosen
            && mark.is_there()
        {
            return *id == current;
        }
        if callers.unfit.contains(&current) {
            return false;
        }
        if drives_connections() {
            callers.chosen = Some((current, RuntimeMark::leave()));
            return true;
        }
        if callers.unfit.len() == MAX_UNFIT {
            callers.unfit.pop_front();
        }
        callers.unfit.push_back(current);
        false
    }
}

/// Whether the current runtime drives timers, and sockets if a store needs them.
///
/// A runtime does not tell. One that does not drive them panics where one is made: that panic is
/// caught here, but the program's panic hook sees it, once for each such runtime.
#[expect(clippy::disallowed_methods, reason = "the timer is not waited for")]
fn drives_connections() -> bool {
    catch_unwind(|| {
        drop(tokio::time::sleep(Duration::ZERO));
        #[cfg(feature = "net")]
        if let Ok(socket) = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))
            && socket.set_nonblocking(true).is_ok()
        {
            drop(tokio::net::UdpSocket::from_std(socket));
        }
    })
    .is_ok()
}

/// A call under way. A forked child that drops one forgets it: it may have locked what the child
/// cannot unlock, and own sockets that are the parent's, too (C1).
pub(crate) struct Call<'a, F> {
    call_runtime: &'a CallRuntime,
    work: Option<Pin<Box<F>>>,
    /// The runtime that polled it last, and whether it may run there.
    polled_on: Option<(Id, bool)>,
    /// It runs on the engine's runtime only.
    by_engine: bool,
    /// Whether it was polled before.
    has_begun: bool,
}

impl<F: Future> Future for Call<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let call = self.get_mut();
        if !call.has_begun && BlockedThread::is_refused() {
            // Nothing is sent for a call whose caller is told that it was not made.
            return Poll::Pending;
        }
        call.has_begun = true;
        let is_usable = call.is_usable();
        let Some(work) = &mut call.work else { return Poll::Pending };
        let other = call.call_runtime.runtime.as_ref().filter(|_| !is_usable);
        let entered = other.map(Handle::enter);
        let polled = work.as_mut().poll(cx);
        if polled.is_ready() {
            call.work = None;
        }
        drop(entered);
        polled
    }
}

impl<F> Call<'_, F> {
    /// Whether the call may run on the runtime that polls it.
    fn is_usable(&mut self) -> bool {
        if (self.by_engine || BlockedThread::is()) && !self.call_runtime.is_forked() {
            return self.call_runtime.runtime.is_none();
        }
        let Ok(current) = Handle::try_current() else { return false };
        // Each time: a test can pause the clock between two polls.
        if !is_real() {
            return false;
        }
        let current = current.id();
        match self.polled_on {
            Some((id, is_chosen)) if id == current => is_chosen,
            _ => {
                let is_chosen = self.call_runtime.is_chosen(current);
                self.polled_on = Some((current, is_chosen));
                is_chosen
            }
        }
    }
}

impl<F> Drop for Call<'_, F> {
    fn drop(&mut self) {
        if self.work.is_some() && self.call_runtime.is_forked() {
            forget(self.work.take());
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test owns its runtimes")]
mod tests {
    use std::future::poll_fn;

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    /// The runtime on which a call runs that is polled on `runtime`.
    fn runs_on(calls: &CallRuntime, runtime: &Runtime) -> Id {
        runtime.block_on(calls.call(async { Handle::current().id() }))
    }

    #[test]
    fn c28_one_runtime_at_a_time_runs_its_own_calls() {
        let (engine, first, second) = (runtime(), runtime(), runtime());
        let calls = CallRuntime::new(Some(engine.handle().clone()));
        assert_eq!(runs_on(&calls, &engine), engine.handle().id(), "it is not chosen");
        assert_eq!(runs_on(&calls, &first), first.handle().id());
        assert_eq!(runs_on(&calls, &second), engine.handle().id());
        drop(first);
        assert_eq!(runs_on(&calls, &second), second.handle().id());
        assert_eq!(runs_on(&calls, &runtime()), engine.handle().id());
    }

    #[test]
    fn c28_a_runtime_that_drives_no_connections_is_not_chosen() {
        let (engine, fit) = (runtime(), runtime());
        let calls = CallRuntime::new(Some(engine.handle().clone()));
        let bare = Builder::new_current_thread().build().unwrap();
        let timers = Builder::new_current_thread().enable_time().build().unwrap();
        for _ in 0..2 {
            assert_eq!(runs_on(&calls, &bare), engine.handle().id());
            if cfg!(feature = "net") {
                assert_eq!(runs_on(&calls, &timers), engine.handle().id());
            }
        }
        assert_eq!(runs_on(&calls, &fit), fit.handle().id());
    }

    #[test]
    fn c28_a_call_by_the_engine_has_its_runtime_only() {
        let (engine, first) = (runtime(), runtime());
        let calls = CallRuntime::new(Some(engine.handle().clone()));
        let ran = first.block_on(calls.call_by_engine(async { Handle::current().id() }));
        assert_eq!(ran, engine.handle().id());
        assert_eq!(runs_on(&calls, &first), first.handle().id(), "it was not chosen before");
    }

    #[test]
    fn c28_a_call_goes_on_where_it_may_when_another_runtime_polls_it() {
        let (engine, first, second) = (runtime(), runtime(), runtime());
        let calls = CallRuntime::new(Some(engine.handle().clone()));
        let mut call = Box::pin(calls.call(async {
            let began = Handle::current().id();
            tokio::task::yield_now().await;
            (began, Handle::current().id())
        }));
        let once = first.block_on(poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))));
        assert!(once.is_pending());
        assert_eq!(second.block_on(call), (first.handle().id(), engine.handle().id()));
    }
}
