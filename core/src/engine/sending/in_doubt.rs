//! Requests that may have left something at the store.

use std::sync::Arc;

use crate::clock::now;
use crate::engine::sending::outbox::Message;
use crate::engine::shared::EngineHandle;
use crate::engine::waiting::waiters::{Queued, WakeUp};
use crate::steps::{Ending, Object, Release};
use crate::{Ticket, Ttl};

/// An acquisition that may have left something at the store. Dropped in in_doubt, it queues the cancel (C4).
#[derive(Debug)]
pub(crate) struct InDoubt {
    engine: Arc<EngineHandle>,
    pub(crate) object: Object,
    pub(crate) ticket: Ticket,
    pub(crate) lease: Ttl,
    /// It takes a hold over that somebody had before: in in_doubt it is released, so that a member of a wait group does
    /// not end uncounted.
    moves: bool,
    /// On the board, as an acquisition that may queue.
    asks: bool,
    raised: bool,
}

impl InDoubt {
    pub(crate) fn new(engine: &Arc<EngineHandle>, object: &Object, ticket: Ticket, lease: Ttl) -> Self {
        Self {
            engine: Arc::clone(engine),
            object: object.clone(),
            ticket,
            lease,
            moves: false,
            asks: false,
            raised: false,
        }
    }

    /// The doubt about a hold that is moved to a ticket.
    pub(crate) fn of_move(engine: &Arc<EngineHandle>, object: &Object, ticket: Ticket, lease: Ttl) -> Self {
        let mut in_doubt = Self::new(engine, object, ticket, lease);
        in_doubt.moves = true;
        in_doubt
    }

    /// A request is about to be sent.
    pub(crate) fn raise(&mut self) {
        self.raised = true;
    }

    /// Nothing is left at the store, or what is left has an owner.
    pub(crate) fn settle(&mut self) {
        self.raised = false;
    }

    /// The ticket queues at the store: its wake-ups arrive at the bell.
    fn join(&self, queued: Queued) -> WakeUp {
        self.engine.shared.waiters.join(&self.object, self.ticket, self.lease.get(), queued)
    }

    /// The acquisition may queue from now on.
    fn ask(&mut self) {
        self.asks = true;
        self.engine.shared.waiters.ask(self.ticket);
    }
}

impl Drop for InDoubt {
    fn drop(&mut self) {
        let shared = &self.engine.shared;
        if self.asks {
            shared.waiters.leave(self.ticket);
        }
        if self.raised && self.moves {
            let object = self.object.clone();
            let lasting = self.lease.tombstone();
            let (ending, tombstone) = (Ending::Abandoned, Some(lasting));
            let release = Release { object, ticket: self.ticket, ending, tombstone, call: None };
            shared.outbox.push(Message::Release(release), now().checked_add(lasting.get()));
        } else if self.raised {
            shared.send_cancel(&self.object, self.ticket, self.lease);
        }
    }
}
