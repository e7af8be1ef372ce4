//! The life of one lease: believed until its deadline, renewed, lost or given back.

use std::fmt;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use crate::clock::now;
use crate::steps::Object;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard, Notify};
use crate::{Ticket, Ttl};

/// Where a hold stands. There is no way back from `Lost` and `Given`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Live,
    Lost,
    /// Released, detached or abandoned by its own guard.
    Given,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    deadline: Instant,
}

/// A hold of this process, shared by its guard and the watchdog.
pub(crate) struct LeaseHold {
    pub(crate) object: Object,
    pub(crate) ticket: Ticket,
    pub(crate) lease: Ttl,
    /// No renewal from this moment on.
    pub(crate) renew_until: Option<Instant>,
    /// A request of this ticket may still be under way, so that its release leaves a tombstone.
    pub(crate) ambiguous: bool,
    /// When the request was sent that granted it.
    pub(crate) sent: Instant,
    /// This process asked the store to free it by force.
    suspect: AtomicBool,
    state: Mutex<State>,
    changed: Notify,
}

impl LeaseHold {
    /// A hold granted by a request that was sent at `sent`.
    pub(crate) fn new(object: Object, ticket: Ticket, lease: Ttl, sent: Instant) -> Self {
        let deadline = sent + lease.belief();
        Self {
            object,
            ticket,
            lease,
            renew_until: None,
            ambiguous: false,
            sent,
            suspect: AtomicBool::new(false),
            state: Mutex::new(State { phase: Phase::Live, deadline }),
            changed: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock: whoever saw the deadline pass must not be contradicted by a later renewal.
        if state.phase == Phase::Live && now() >= state.deadline {
            state.phase = Phase::Lost;
            self.changed.notify_waiters();
            tracing::warn!(name = %self.object.name, ticket = %self.ticket, "hold lost: its deadline passed");
        }
        state
    }

    pub(crate) fn is_held(&self) -> bool {
        self.state().phase == Phase::Live
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.state().deadline
    }

    /// A renewal that was sent at `sent` succeeded. Too late for a hold that is not live any more.
    pub(crate) fn extend(&self, sent: Instant, lease: Ttl) {
        let mut state = self.state();
        if state.phase == Phase::Live {
            state.deadline = state.deadline.max(sent + lease.belief());
        }
    }

    /// The store says the hold is gone, or the store object was closed. `true` if it was live.
    pub(crate) fn lose(&self) -> bool {
        self.leave(Phase::Lost)
    }

    /// Somebody of this process asks to have it freed by force.
    pub(crate) fn suspect(&self) {
        self.suspect.store(true, Ordering::Relaxed);
    }

    /// Whether it may have been freed by force.
    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    /// The guard gives the hold up. `true` if it was live until now.
    pub(crate) fn give(&self) -> bool {
        self.leave(Phase::Given)
    }

    fn leave(&self, phase: Phase) -> bool {
        let mut state = self.state();
        let live = state.phase == Phase::Live;
        if live {
            state.phase = phase;
        }
        drop(state);
        if live && phase == Phase::Given {
            let held = self.sent.elapsed();
            tracing::debug!(name = %self.object.name, ticket = %self.ticket, ?held, "hold given up");
        }
        self.changed.notify_waiters();
        live
    }

    /// Resolves when the hold is lost; never after it was given up.
    pub(crate) async fn lost(&self) {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let (phase, deadline) = {
                let state = self.state();
                (state.phase, state.deadline)
            };
            match phase {
                Phase::Lost => return,
                Phase::Given => changed.await,
                // Either way the state is read anew.
                Phase::Live => drop(timeout_at(deadline, changed).await),
            }
        }
    }

    /// The lease to ask for in a renewal at `at`; `None` once renewal has ended.
    pub(crate) fn next_lease(&self, at: Instant) -> Option<Ttl> {
        let Some(until) = self.renew_until else { return Some(self.lease) };
        let left = until.saturating_duration_since(at);
        let lease = Ttl::new(left.min(self.lease.get())).ok()?;
        (at + lease.belief() > self.deadline()).then_some(lease)
    }

    /// When to try a renewal again after one that failed.
    pub(crate) fn retry_after(&self) -> Duration {
        (self.lease.get() / 20).clamp(Duration::from_millis(5), Duration::from_millis(250))
    }
}

impl fmt::Debug for LeaseHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseHold")
            .field("object", &self.object)
            .field("ticket", &self.ticket)
            .finish_non_exhaustive()
    }
}
