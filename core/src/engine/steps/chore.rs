//! What a backend does by itself.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use super::super::shared::Shared;
use crate::Ticket;

/// Work of a backend that nobody called for: it runs on the engine's thread, beside renewals and releases, until the last
/// release is delivered, and is dropped then.
#[async_trait]
pub trait Chore: Debug + Send + Sync {
    /// Does the work, for as long as there is any. It MUST NOT block the thread: renewals are on it. It may sleep, and is
    /// dropped at any await point. What fails is the chore's own to try again.
    async fn run(&self, reports: &Reports);
}

/// What a chore has to tell the engine.
#[derive(Clone, Debug)]
pub struct Reports(pub(in crate::engine) Arc<Shared>);

impl Reports {
    /// A hint to a waiter, as those of a [`WakeSource`](super::WakeSource).
    pub fn ring(&self, ticket: Ticket) {
        let Self(shared) = self;
        if !shared.watches.ring(ticket) {
            shared.board.ring(ticket);
        }
    }

    /// The store does not keep that hold any more: its guard is told at once (C9). Nothing happens if it is none of
    /// this store object's.
    pub fn gone(&self, ticket: Ticket) {
        if let Some(hold) = self.0.registry.find(ticket)
            && hold.lose()
        {
            tracing::warn!(name = %hold.object.name, %ticket, "hold lost: the store does not keep it any more");
        }
    }
}
