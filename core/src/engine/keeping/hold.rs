//! The state of one hold: live until its deadline, extended by renewals, then lost or released.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::timeout_at;
use crate::engine::timing::engine_now as now;
use crate::observe::events::{LossCause, LostHold};
use crate::observe::metering::Meter;
use crate::spi::Object;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Broadcast, Mutex};
use crate::{Ticket, Ttl};

/// The state of a hold. `Lost` and `Released` are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Live,
    Lost,
    /// Released, detached or abandoned by its own guard.
    Released,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    deadline: Instant,
}

/// A hold of this process, shared by its guard and the renewals.
pub(crate) struct LeaseHold {
    pub(crate) object: Object,
    pub(crate) ticket: Ticket,
    pub(crate) lease: Ttl,
    /// For the log.
    pub(crate) label: Option<Arc<str>>,
    /// For the log and the metrics.
    pub(crate) store: &'static str,
    /// For the log.
    pub(crate) namespace: Option<Arc<str>>,
    /// No renewal from this moment on.
    pub(crate) renew_until: Option<Instant>,
    /// A request of this ticket may still be under way, so its release leaves a tombstone.
    pub(crate) ambiguous: bool,
    /// When the request that was granted was sent.
    pub(crate) sent: Instant,
    /// Requests of this process to release the hold by force that were executed, or may be.
    forces: AtomicU32,
    state: Mutex<State>,
    changed: Broadcast,
}

impl LeaseHold {
    /// Makes a hold granted by a request that was sent at `sent`.
    pub(crate) fn new(object: Object, ticket: Ticket, lease: Ttl, sent: Instant) -> Self {
        let deadline = sent + lease.belief();
        Self {
            object,
            ticket,
            lease,
            label: None,
            store: "",
            namespace: None,
            renew_until: None,
            ambiguous: false,
            sent,
            forces: AtomicU32::new(0),
            state: Mutex::new(State { phase: Phase::Live, deadline }),
            changed: Broadcast::new(),
        }
    }

    /// Works on the state. Of a loss by the deadline, those who wait for it and the log are told
    /// once the lock is free: a waker may drop the guard, a subscriber of the log may ask it.
    fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock: once a caller has seen the deadline pass, no later renewal may
        // contradict it.
        let expires = state.phase == Phase::Live && now() >= state.deadline;
        if expires {
            state.phase = Phase::Lost;
        }
        let worked = work(&mut state);
        drop(state);
        if expires {
            self.changed.notify_waiters();
            self.record_loss(LossCause::Deadline);
        }
        worked
    }

    /// Logs and counts the loss.
    fn record_loss(&self, cause: LossCause) {
        let lost = LostHold {
            store: self.store,
            namespace: self.namespace.as_deref(),
            kind: self.object.kind,
            name: &self.object.name,
            ticket: self.ticket,
            label: self.label.as_deref(),
            held: self.sent.elapsed(),
            cause,
        };
        lost.record();
    }

    pub(crate) fn meter(&self) -> Meter {
        Meter::new(self.store, self.object.kind, &self.object.name)
    }

    pub(crate) fn is_held(&self) -> bool {
        self.with(|state| state.phase == Phase::Live)
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.with(|state| state.deadline)
    }

    /// Applies a successful renewal that was sent at `sent`. Has no effect on a hold that is not
    /// live.
    pub(crate) fn extend(&self, sent: Instant, lease: Ttl) {
        self.with(|state| {
            if state.phase == Phase::Live {
                state.deadline = state.deadline.max(sent + lease.belief());
            }
        });
    }

    /// Marks the hold as lost: the store does not have it any more, or the store object was closed.
    /// `true` if it was live.
    pub(crate) fn lose(&self, cause: LossCause) -> bool {
        let was_live = self.leave(Phase::Lost);
        if was_live {
            self.record_loss(cause);
        }
        was_live
    }

    /// Marks the hold as lost, since the store does not have it any more. This may happen before
    /// the request that ended it by force is answered.
    pub(crate) fn lose_gone(&self) {
        self.lose(if self.is_force_requested() { LossCause::Forced } else { LossCause::Gone });
    }

    /// Notes that this process asks the store to release the hold by force.
    pub(crate) fn request_force(&self) {
        self.forces.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that such a request was certainly not executed.
    pub(crate) fn force_refused(&self) {
        self.forces.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether this process may have released the hold by force.
    pub(crate) fn is_force_requested(&self) -> bool {
        self.forces.load(Ordering::Relaxed) > 0
    }

    /// Marks the hold as given up by its guard. `true` if it was live until now.
    pub(crate) fn give(&self) -> bool {
        self.leave(Phase::Released)
    }

    fn leave(&self, phase: Phase) -> bool {
        let live = self.with(|state| {
            let live = state.phase == Phase::Live;
            if live {
                state.phase = phase;
            }
            live
        });
        if live && phase == Phase::Released {
            let held = self.sent.elapsed();
            tracing::debug!(
                stanchion.store = self.store,
                stanchion.namespace = self.namespace.as_deref(),
                stanchion.kind = self.object.kind.as_str(),
                stanchion.name = self.object.name.as_str(),
                stanchion.ticket = %self.ticket,
                stanchion.hold.duration = held.as_secs_f64(),
                "a hold was given up by its guard"
            );
            self.meter().given_up(held);
        }
        self.changed.notify_waiters();
        live
    }

    /// Resolves when the hold is lost; never once it was given up.
    pub(crate) async fn lost(&self) {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let (phase, deadline) = self.with(|state| (state.phase, state.deadline));
            match phase {
                Phase::Lost => return,
                Phase::Released => changed.await,
                // Both outcomes read the state again.
                Phase::Live => drop(timeout_at(deadline, changed).await),
            }
        }
    }

    /// Returns the lease for a renewal at `at`; `None` once renewal has ended.
    pub(crate) fn next_lease(&self, at: Instant) -> Option<Ttl> {
        let Some(until) = self.renew_until else { return Some(self.lease) };
        let left = until.saturating_duration_since(at);
        let lease = Ttl::new(left.min(self.lease.get())).ok()?;
        (at + lease.belief() > self.deadline()).then_some(lease)
    }

    /// Returns the pause before the next attempt of a failed renewal.
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
