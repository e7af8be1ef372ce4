//! Hints to the waiters of one namespace, of several that share a connection.

use std::sync::{Mutex, PoisonError};

use tokio::sync::{MutexGuard, Notify};

use crate::Ticket;

/// Maximum number of hints that are kept while nobody takes them.
const MAX_KEPT: usize = 10_000;

/// The hints to the waiters of one namespace. For a [`WakeSource`](super::WakeSource) whose
/// namespaces share a connection: the one that finds it free waits there for all, and puts the
/// hints to the others into their boxes.
#[derive(Debug, Default)]
pub struct HintBox {
    tickets: Mutex<Vec<Ticket>>,
    arrived: Notify,
}

impl HintBox {
    /// Takes the hints that are there.
    #[must_use]
    pub fn take(&self) -> Vec<Ticket> {
        std::mem::take(&mut *self.tickets.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds hints. Beyond 10,000 that nobody takes they are dropped: waiters proceed without.
    pub fn put(&self, hints: Vec<Ticket>) {
        let mut kept = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_KEPT.saturating_sub(kept.len());
        kept.extend(hints.into_iter().take(room));
        drop(kept);
        self.arrived.notify_one();
    }

    /// Resolves once hints were put that no earlier call was told of. For one caller at a time.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Waits until the connection is free, and returns it; `None` if there are hints before.
    pub async fn lead<'a, C>(&self, connection: &'a tokio::sync::Mutex<C>) -> Option<MutexGuard<'a, C>> {
        let connection = tokio::select! {
            biased;
            () = self.arrived() => return None,
            connection = connection.lock() => connection,
        };
        self.is_empty().then_some(connection)
    }

    fn is_empty(&self) -> bool {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}
