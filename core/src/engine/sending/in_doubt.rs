//! Requests that may have left something at the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::engine::sending::leftover::{Left, Leftover};
use crate::engine::shared::EngineHandle;
use crate::engine::waiting::waiters::{Queued, WakeUp};
use crate::spi::Object;
use crate::{Ticket, Ttl};

/// An acquisition of which the store may have executed a request. Dropped in that state, it queues
/// what frees that (C4). Until then a close of the store does the same (C12).
#[derive(Debug)]
pub(crate) struct InDoubt {
    engine: Arc<EngineHandle>,
    pub(crate) leftover: Leftover,
    /// A request was sent, and its outcome has no owner yet.
    open: bool,
    /// A request was sent before.
    is_known: bool,
}

impl InDoubt {
    pub(crate) fn new(
        engine: &Arc<EngineHandle>,
        object: &Object,
        ticket: Ticket,
        lease: Ttl,
        left: Left,
    ) -> Self {
        let leftover = Leftover {
            object: object.clone(),
            ticket,
            lease,
            left,
            is_answered: false,
            can_be_passed_over: false,
        };
        engine.shared.containment.outages.acquiring.fetch_add(1, Ordering::Relaxed);
        Self { engine: Arc::clone(engine), leftover, open: false, is_known: false }
    }

    /// Has the engine take it over where its caller does not go on and others wait for it: nobody
    /// polls it (C6).
    #[must_use]
    pub(crate) fn that_can_be_passed_over(mut self) -> Self {
        self.leftover.can_be_passed_over = true;
        self
    }

    /// Notes that a request is about to be sent. From now on a close frees what it leaves. Returns
    /// `false` if the engine has taken the ticket over: it must not be used any more.
    pub(crate) fn sent(&mut self) -> bool {
        self.open = true;
        self.leftover.is_answered = false;
        let is_known = std::mem::replace(&mut self.is_known, true);
        self.engine.shared.waiters.ask(&self.leftover, is_known)
    }

    /// Notes that its caller has a grant in its hands. Returns `false` if the engine has taken it
    /// over.
    pub(crate) fn hand_out(&self) -> bool {
        self.engine.shared.waiters.hand_out(self.leftover.ticket)
    }

    /// Returns whether the engine has taken it over.
    pub(crate) fn is_taken_over(&self) -> bool {
        !self.engine.shared.waiters.is_asking(self.leftover.ticket)
    }

    /// Notes the answer that it queues. `is_answered`: every request so far was answered, so that
    /// none of them can arrive after what frees the place (C4).
    pub(crate) fn queued(&mut self, is_answered: bool) {
        self.leftover.is_answered = is_answered;
        self.engine.shared.waiters.queued(&self.leftover);
    }

    /// Notes that a request failed, and that its caller goes on after a pause.
    pub(crate) fn failed(&self) {
        self.engine.shared.waiters.failed(self.leftover.ticket, self.open);
    }

    /// Notes that nothing is left at the store, or that what is left has an owner.
    pub(crate) fn resolved(&mut self) {
        self.open = false;
    }

    /// Notes that what was granted has an owner who outlives the store object; `false` if a close
    /// has taken it over, which frees it.
    pub(crate) fn settle(mut self) -> bool {
        self.open = false;
        self.engine.shared.waiters.settle(self.leftover.ticket)
    }

    pub(crate) fn engine(&self) -> &Arc<EngineHandle> {
        &self.engine
    }

    /// Whether a request was sent whose outcome is not resolved.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Registers that the ticket queues at the store; wake-ups for it arrive at the returned
    /// [`WakeUp`].
    pub(crate) fn join(&self, queued: Queued) -> WakeUp {
        let Leftover { object, ticket, lease, .. } = &self.leftover;
        self.engine.shared.waiters.join(object, *ticket, lease.get(), queued)
    }
}

impl Drop for InDoubt {
    fn drop(&mut self) {
        let shared = &self.engine.shared;
        shared.containment.outages.acquiring.fetch_sub(1, Ordering::Relaxed);
        shared.waiters.leave(&self.leftover, || {
            if self.open {
                shared.free(&self.leftover);
            }
        });
    }
}
