//! Background work of a backend.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::Ticket;

/// Background work of a backend. It runs on the engine's thread, concurrently with renewals and
/// releases, until the last release is delivered; then it is dropped.
#[async_trait]
pub trait Chore: Debug + Send + Sync {
    /// Does the work until there is none left. It MUST NOT block the thread, since renewals run on
    /// it. It may sleep, and is dropped at any await point. It retries its own failures.
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

    /// Reports that the store does not keep that hold any more: its guard is told at once ([C9]).
    /// Does nothing for a ticket of another store object.
    ///
    /// [C9]: crate::contract#c9
    pub fn gone(&self, ticket: Ticket) {
        self.0.gone(ticket);
    }
}
