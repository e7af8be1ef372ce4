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
}

impl InDoubt {
    pub(crate) fn new(
        engine: &Arc<EngineHandle>,
        object: &Object,
        ticket: Ticket,
        lease: Ttl,
        left: Left,
    ) -> Self {
        let leftover = Leftover { object: object.clone(), ticket, lease, left, is_answered: false };
        engine.shared.containment.outages.acquiring.fetch_add(1, Ordering::Relaxed);
        Self { engine: Arc::clone(engine), leftover, open: false }
    }

    /// Notes that a request is about to be sent. From now on a close frees what it leaves.
    pub(crate) fn sent(&mut self) {
        self.open = true;
        self.leftover.is_answered = false;
        self.engine.shared.waiters.ask(&self.leftover);
    }

    /// Notes that every request so far was answered, the last one with a place in the queue: none
    /// of them can arrive after what frees that (C4).
    pub(crate) fn answered(&mut self) {
        self.leftover.is_answered = true;
        self.engine.shared.waiters.ask(&self.leftover);
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
        shared.waiters.leave(self.leftover.ticket, || {
            if self.open {
                shared.free(&self.leftover);
            }
        });
    }
}
