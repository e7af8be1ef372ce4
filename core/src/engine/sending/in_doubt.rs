//! Requests that may have left something at the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::engine::shared::EngineHandle;
use crate::engine::timing::engine_now as now;
use crate::engine::waiting::waiters::{Queued, WakeUp};
use crate::spi::{Ending, Object, Release};
use crate::{Ticket, Ttl};

/// An acquisition of which the store may have executed a request. Dropped in that state, it queues
/// the cancel (C4).
#[derive(Debug)]
pub(crate) struct InDoubt {
    engine: Arc<EngineHandle>,
    pub(crate) object: Object,
    pub(crate) ticket: Ticket,
    pub(crate) lease: Ttl,
    /// The request moves an existing hold to this ticket. In doubt the hold is released, not
    /// cancelled, so that a member of a wait group does not end uncounted.
    moves: bool,
    /// The ticket is registered with the waiters of this process.
    registered: bool,
    /// A request was sent, and its outcome has no owner yet.
    open: bool,
}

impl InDoubt {
    pub(crate) fn new(engine: &Arc<EngineHandle>, object: &Object, ticket: Ticket, lease: Ttl) -> Self {
        engine.shared.containment.outages.acquiring.fetch_add(1, Ordering::Relaxed);
        Self {
            engine: Arc::clone(engine),
            object: object.clone(),
            ticket,
            lease,
            moves: false,
            registered: false,
            open: false,
        }
    }

    /// For a hold that is moved to `ticket`.
    pub(crate) fn of_move(engine: &Arc<EngineHandle>, object: &Object, ticket: Ticket, lease: Ttl) -> Self {
        let mut in_doubt = Self::new(engine, object, ticket, lease);
        in_doubt.moves = true;
        in_doubt
    }

    /// Notes that a request is about to be sent.
    pub(crate) fn sent(&mut self) {
        self.open = true;
    }

    /// Notes that nothing is left at the store, or that what is left has an owner.
    pub(crate) fn resolved(&mut self) {
        self.open = false;
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
        self.engine.shared.waiters.join(&self.object, self.ticket, self.lease.get(), queued)
    }

    /// Registers that the acquisition may queue from now on.
    pub(crate) fn register(&mut self) {
        self.registered = true;
        self.engine.shared.waiters.ask(self.ticket);
    }
}

impl Drop for InDoubt {
    fn drop(&mut self) {
        let shared = &self.engine.shared;
        shared.containment.outages.acquiring.fetch_sub(1, Ordering::Relaxed);
        if self.registered {
            shared.waiters.leave(self.ticket);
        }
        if self.open && self.moves {
            let object = self.object.clone();
            let tombstone = self.lease.tombstone();
            let (ending, give_up) = (Ending::Abandoned, now().checked_add(tombstone.get()));
            let release =
                Release { object, ticket: self.ticket, ending, tombstone: Some(tombstone), call: None };
            shared.outbox.push(release, give_up);
        } else if self.open && self.registered {
            shared.send_cancel(&self.object, self.ticket, self.lease);
        } else if self.open {
            shared.send_cancel_of_hold(&self.object, self.ticket, self.lease);
        }
    }
}
