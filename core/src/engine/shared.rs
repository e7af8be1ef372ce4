//! The state of one store object, shared by the engine's thread and the callers.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::contained::Containment;
use crate::engine::keeping::hold::LeaseHold;
use crate::engine::keeping::registry::Registry;
use crate::engine::limiter::limiting::{Claimed, Limiting};
use crate::engine::sending::batching::Batcher;
use crate::engine::sending::leftover::Leftover;
use crate::engine::sending::outbox::Outbox;
use crate::engine::timing::{PROBE_TIMEOUT, engine_now as now, renewal_interval};
use crate::engine::waiting::group_waiters::GroupWaiters;
use crate::engine::waiting::waiters::Waiters;
use crate::observe::events::LossCause;
use crate::runtime::call_runtime::{Call, CallRuntime};
use crate::runtime::thread::{EngineThread, Unfinished};
use crate::spi::{Cancel, Ending, Object, Poll, Refund, Release, ReportSink, Request, Steps, WakeSource};
use crate::sync::Notify;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::{Capabilities, Error, ErrorKind, Result, Ticket, Ttl};

/// Minimum time for which a refund is tried, and the extra time after the reservation is ready:
/// clocks run at different speeds.
const REFUND_TIME: Duration = Duration::from_secs(60);

/// Keeps the engine alive: every handle and guard has a clone.
#[derive(Debug)]
pub(crate) struct EngineHandle {
    pub(crate) shared: Arc<Shared>,
    /// `None` in tests that drive the engine themselves.
    pub(crate) thread: Option<Arc<EngineThread>>,
    /// Maximum time for which the drop of the last thing of the store waits until everything queued
    /// is sent (C12).
    pub(crate) drain: Duration,
    /// A wait that took that long or longer is told at `info`.
    pub(crate) slow_wait: Duration,
}

impl Drop for EngineHandle {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            // Dropped, the connections would take the parent's out of the poll set that both have.
            std::mem::forget((Arc::clone(&self.shared), self.thread.clone()));
            return;
        }
        self.shared.stop();
        if let Some(thread) = &self.thread {
            let engine: Weak<Shared> = Arc::downgrade(&self.shared);
            thread.drain_at_end(engine, self.drain);
        }
    }
}

impl Unfinished for Shared {
    fn send_queued(&self, time: Duration) {
        // The thread cannot wait for itself.
        if !self.is_on_thread() {
            self.outbox.drain_blocking(time);
        }
    }
}

/// The state of one store object.
pub(crate) struct Shared {
    pub(crate) capabilities: Capabilities,
    pub(crate) namespace: Arc<str>,
    /// The steps over the callers' connection.
    pub(crate) steps: Arc<dyn Steps>,
    /// Where requests leave that many callers make.
    pub(crate) batcher: Batcher,
    pub(crate) limits: Limiting,
    pub(crate) registry: Registry,
    pub(crate) waiters: Waiters,
    pub(crate) group_waiters: GroupWaiters,
    pub(crate) outbox: Outbox,
    pub(crate) containment: Arc<Containment>,
    closed: AtomicBool,
    call_runtime: Arc<CallRuntime>,
    stop: Notify,
    /// The engine's thread, once it has begun.
    thread: OnceLock<ThreadId>,
}

/// Shows nothing behind a lock: what is printed neither grows with the holds and waiters, nor are
/// they kept from their callers meanwhile.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (store, namespace) = (self.capabilities.store, &self.namespace);
        f.debug_struct("Shared").field("store", &store).field("namespace", namespace).finish_non_exhaustive()
    }
}

impl Shared {
    /// `containment` is around the steps and the source of wake-ups.
    pub(crate) fn new(
        capabilities: Capabilities,
        steps: Arc<dyn Steps>,
        wake: Option<Arc<dyn WakeSource>>,
        containment: Arc<Containment>,
        namespace: Arc<str>,
        call_runtime: Arc<CallRuntime>,
    ) -> Self {
        Self {
            capabilities,
            namespace,
            batcher: Batcher::new(Arc::clone(&steps), Arc::clone(&containment.part_sizes)),
            limits: Limiting::default(),
            outbox: Outbox::new(Arc::clone(&steps)),
            steps,
            registry: Registry::default(),
            waiters: Waiters::new(wake.clone()),
            group_waiters: GroupWaiters::new(wake),
            containment,
            closed: AtomicBool::new(false),
            call_runtime,
            stop: Notify::new(),
            thread: OnceLock::new(),
        }
    }

    pub(crate) fn store(&self) -> &'static str {
        self.capabilities.store
    }

    /// Returns whether this process is a forked child of the one that opened the store (C1). Its
    /// copy of the state may be locked for ever, and its sockets are its parent's: it must not use
    /// either. Asked before any lock is taken.
    pub(crate) fn is_forked(&self) -> bool {
        self.call_runtime.is_forked()
    }

    /// # Errors
    /// `Closed` in a forked child.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.is_forked() {
            let detail = "a forked process cannot use the store of its parent: connect again";
            return Err(Error::new(ErrorKind::Closed, detail));
        }
        Ok(())
    }

    /// # Errors
    /// `Closed` after [`close`](Self::close), after a panic of the store, and in a forked child.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.check_process()?;
        self.containment.check()?;
        if self.closed.load(Ordering::Acquire) { Err(Error::closed()) } else { Ok(()) }
    }

    /// Returns the time until which a request that is sent now is to be answered: the request
    /// timeout, or a third of the lease if that is less (C17).
    pub(crate) fn request_end(&self, lease: Option<Ttl>) -> Instant {
        let limit = self.steps.request_timeout();
        now() + lease.map_or(limit, |lease| lease.request_limit(limit))
    }

    /// Registers a granted hold, and its renewal.
    ///
    /// # Errors
    /// `Closed`; then the caller has to cancel the hold.
    pub(crate) fn adopt(&self, hold: &Arc<LeaseHold>, renew: bool) -> Result<()> {
        let renew_at = renew.then(|| hold.sent + renewal_interval(hold.lease));
        if self.registry.insert(hold, renew_at) { Ok(()) } else { Err(Error::closed()) }
    }

    /// Queues the release of a hold whose guard was dropped.
    pub(crate) fn send_release(&self, hold: &LeaseHold) {
        let release = release_of(hold, Ending::Abandoned);
        let lasting = release.tombstone.unwrap_or(hold.lease).max(hold.lease);
        self.outbox.push(release, now().checked_add(lasting.get()));
    }

    /// Queues the cancel of an acquisition that can have a place in the queue. It is retried
    /// without end: a place lasts as long as its process lives.
    pub(crate) fn send_cancel(&self, object: &Object, ticket: Ticket, lease: Ttl) {
        let cancel = Cancel { object: object.clone(), ticket, tombstone: Some(lease.tombstone()) };
        self.outbox.push(cancel, None);
    }

    /// Queues what frees what a request may have left.
    pub(crate) fn free(&self, leftover: &Leftover) {
        let (request, give_up) = leftover.freeing();
        self.outbox.push(request, give_up);
    }

    /// Queues the refund of a reservation that is ready at `ready_at` at the latest; `None` is
    /// beyond the clock's range. Until then the reservation's cost delays other callers.
    pub(crate) fn send_refund(&self, object: &Object, ticket: Ticket, ready_at: Option<Instant>) {
        let give_up = ready_at.and_then(|ready_at| ready_at.max(now()).checked_add(REFUND_TIME));
        self.outbox.push(Refund { object: object.clone(), ticket }, give_up);
    }

    /// Returns whether the backlog of an object's server is full: see [`Outbox::is_full`].
    pub(crate) fn is_full(&self, object: &Object) -> bool {
        self.outbox.is_full(|| self.steps.lane(&Poll { object: object.clone() }.into()).server)
    }

    /// Asks a server whether it answers, if that was not asked a moment ago, by a request that
    /// changes nothing.
    pub(crate) fn probe(&self, server: usize, request: impl FnOnce() -> Request) {
        let Some(runtime) = &self.call_runtime.runtime else { return };
        if self.containment.availability.is_probe_due(server) {
            let (steps, request, end) = (Arc::clone(&self.steps), request(), now() + PROBE_TIMEOUT);
            // What it says is noted around the steps.
            drop(runtime.spawn(async move { drop(steps.send(&[request], end).await) }));
        }
    }

    /// Refuses new calls, tells live guards that they are lost, and queues the release of what they
    /// held (C12).
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Everybody is told before anything is queued.
        let (holds, asking) = (self.registry.close(), self.waiters.close());
        for hold in &holds {
            hold.lose(LossCause::Closed);
        }
        self.group_waiters.close();
        holds.iter().for_each(|hold| self.send_release(hold));
        // What is under way may be granted after this.
        asking.iter().for_each(|leftover| self.free(leftover));
        for (ticket, Claimed { object, ready_by, .. }) in self.limits.close() {
            self.send_refund(&object, ticket, ready_by);
        }
        self.limits.dismiss();
    }

    /// Lets the engine's thread end once the outbox is drained.
    pub(crate) fn stop(&self) {
        self.outbox.stop();
        self.stop.notify_one();
    }

    /// Makes a caller's call; see [`CallRuntime::call`].
    pub(crate) fn on<F: Future>(&self, call: F) -> Call<'_, F> {
        self.call_runtime.call(call)
    }

    /// Makes a call on the engine's runtime; see [`CallRuntime::call_by_engine`].
    pub(crate) fn by_engine<F: Future>(&self, call: F) -> Call<'_, F> {
        self.call_runtime.call_by_engine(call)
    }

    /// Notes that the calling thread is the engine's.
    pub(crate) fn begin_on_thread(&self) {
        // An engine begins once.
        let _ = self.thread.set(thread::current().id());
    }

    pub(crate) fn is_on_thread(&self) -> bool {
        self.thread.get() == Some(&thread::current().id())
    }

    pub(crate) async fn stopped(&self) {
        self.stop.notified().await;
    }
}

impl ReportSink for Shared {
    fn wake(&self, ticket: Ticket) {
        if !self.group_waiters.wake(ticket) {
            self.waiters.wake(ticket);
        }
    }

    fn gone(&self, ticket: Ticket) {
        if let Some(hold) = self.registry.find(ticket) {
            hold.lose_gone();
        }
    }
}

/// Returns the release request of a hold.
pub(crate) fn release_of(hold: &LeaseHold, ending: Ending) -> Release {
    let tombstone = hold.ambiguous.then_some(hold.lease.tombstone());
    Release { object: hold.object.clone(), ticket: hold.ticket, ending, tombstone, call: None }
}
