//! A place in a limiter's future.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::clock::Instant;
use crate::{Result, Ticket};

/// What stands behind a [`Reservation`]; implemented by stores.
#[async_trait]
pub trait ReservationBackend: fmt::Debug + Send + Sync {
    /// Whether its time has come, without I/O.
    fn is_due(&self, ready_at: Instant) -> bool;

    /// Resolves when its time has come.
    async fn due(&self, ready_at: Instant);

    /// Gives back what nobody behind it has used (L7) and tells how much that was; 0 from its time on.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` if the store did not answer.
    async fn cancel(&self, ticket: Ticket) -> Result<u64>;

    /// Queues the cancel, which is worth trying until `ready_at`. Must not block, panic or need a runtime.
    fn abandon(&self, ticket: Ticket, ready_at: Instant);
}

/// A place in the future of a limiter, paid for (L6).
///
/// # Drop
/// Dropped before its time it is cancelled, by a queue: what nobody behind it has used is given back (L7).
#[must_use = "a reservation dropped before its time is cancelled"]
pub struct Reservation {
    keeper: Arc<dyn ReservationBackend>,
    ticket: Ticket,
    cost: u64,
    ready_at: Instant,
    armed: bool,
}

impl Reservation {
    /// A reservation that a store granted; `ready_at` counts from when its reply was received, so that it is never
    /// early by the store's clock.
    pub fn new(keeper: Arc<dyn ReservationBackend>, ticket: Ticket, cost: u64, ready_at: Instant) -> Self {
        Self { keeper, ticket, cost, ready_at, armed: true }
    }

    /// The ticket of this reservation.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// What it cost.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// The local monotonic time from which the caller may act.
    #[must_use]
    pub fn ready_at(&self) -> std::time::Instant {
        self.ready_at.into_std()
    }

    /// Whether its time has come, without I/O.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.keeper.is_due(self.ready_at)
    }

    /// Whether there is anything to give back.
    fn can_refund(&self) -> bool {
        self.cost > 0 && !self.keeper.is_due(self.ready_at)
    }

    /// Waits until its time has come.
    ///
    /// # Cancel safety
    /// A dropped call drops the reservation, which cancels it.
    pub async fn wait(mut self) {
        self.keeper.due(self.ready_at).await;
        self.armed = false;
    }

    /// Cancels it and tells how much was given back: what nobody behind it has used, 0 from its time on (L7).
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` if the store did not answer in time; then the cancel stays queued.
    ///
    /// # Cancel safety
    /// A dropped call leaves the cancel to the queue.
    pub async fn cancel(mut self) -> Result<u64> {
        if !self.can_refund() {
            self.armed = false;
            return Ok(0);
        }
        let refunded = self.keeper.cancel(self.ticket).await;
        self.armed = refunded.is_err();
        refunded
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.armed && self.can_refund() {
            self.keeper.abandon(self.ticket, self.ready_at);
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("ticket", &self.ticket)
            .field("cost", &self.cost)
            .field("ready_at", &self.ready_at)
            .finish_non_exhaustive()
    }
}
