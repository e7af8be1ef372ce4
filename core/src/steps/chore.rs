//! What a backend does by itself.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::Ticket;

/// Work of a backend that nobody called for: it runs on the engine's thread, beside renewals and releases, until the last
/// release is delivered, and is dropped then.
#[async_trait]
pub trait Chore: Debug + Send + Sync {
    /// Does the work, for as long as there is any. It MUST NOT block the thread: renewals are on it. It may sleep, and is
    /// dropped at any await point. What fails is the chore's own to try again.
    async fn run(&self, reports: &Reports);
}

/// What the engine does with a backend's reports.
pub(crate) trait ReportSink: Debug + Send + Sync {
    fn wake(&self, ticket: Ticket);
    fn gone(&self, ticket: Ticket);
}

/// What a chore reports to the engine.
#[derive(Clone, Debug)]
pub struct Reports(pub(crate) Arc<dyn ReportSink>);

impl Reports {
    /// Passes a hint on to a waiter, as the hints of a [`WakeSource`](super::WakeSource) are.
    pub fn wake(&self, ticket: Ticket) {
        self.0.wake(ticket);
    }

    /// Reports that the store does not keep that hold any more: its guard is told at once (C9). Does nothing for a ticket of
    /// another store object.
    pub fn gone(&self, ticket: Ticket) {
        self.0.gone(ticket);
    }
}
