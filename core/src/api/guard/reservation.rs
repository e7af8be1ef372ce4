//! Reservations of a limiter.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::clock::Instant;
use crate::{Result, Ticket};

/// The store's side of a [`Reservation`].
#[async_trait]
pub trait ReservationBackend: fmt::Debug + Send + Sync {
    /// Returns whether the reservation is ready, without I/O.
    fn is_due(&self, ready_at: Instant) -> bool;

    /// Resolves when the reservation is ready.
    async fn due(&self, ready_at: Instant);

    /// Refunds the part that no later reservation has used ([L7]), and returns it, in tokens; 0
    /// once it is ready.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` if the store did not answer.
    ///
    /// [L7]: crate::contract#l7
    async fn cancel(&self, ticket: Ticket) -> Result<u64>;

    /// Queues the cancel, which has an effect until `ready_at`. Must not block, panic or need a
    /// runtime.
    fn abandon(&self, ticket: Ticket, ready_at: Instant);
}

/// Tokens of a limiter, reserved for a time in the future ([L6]).
///
/// # Drop
/// A reservation that is dropped before it is ready is cancelled by the queue of releases: the part
/// that no later reservation has used is refunded ([L7]).
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> stanchion::Result<()> {
/// use std::time::Duration;
///
/// use stanchion::{LimiterOptions, Quota};
///
/// let store = stanchion::connect("memory:").await?;
/// let calls = store.limiter("partner", LimiterOptions::new(Quota::per_second(50).burst(10)))?;
/// let Some(reservation) = calls.reserve_n(3, Duration::from_secs(1)).await? else {
///     return Ok(()); // it would take more than a second
/// };
/// assert_eq!(reservation.cost(), 3);
/// reservation.wait().await;
/// # Ok(())
/// # }
/// ```
///
/// [L6]: crate::contract#l6
/// [L7]: crate::contract#l7
#[must_use = "a reservation dropped before its time is cancelled"]
pub struct Reservation {
    backend: Arc<dyn ReservationBackend>,
    ticket: Ticket,
    cost: u64,
    ready_at: Instant,
    armed: bool,
}

impl Reservation {
    /// Makes a reservation that a store granted. `ready_at` counts from the receipt of the reply,
    /// so that it is never early by the store's clock.
    pub fn new(backend: Arc<dyn ReservationBackend>, ticket: Ticket, cost: u64, ready_at: Instant) -> Self {
        Self { backend, ticket, cost, ready_at, armed: true }
    }

    /// Returns the ticket of this reservation.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Returns the cost, in tokens.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the local monotonic time from which on the caller may act.
    #[must_use]
    pub fn ready_at(&self) -> std::time::Instant {
        self.ready_at.into_std()
    }

    /// Returns whether the reservation is ready, without I/O.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.backend.is_due(self.ready_at)
    }

    /// Returns whether there is anything to refund.
    fn can_refund(&self) -> bool {
        self.cost > 0 && !self.backend.is_due(self.ready_at)
    }

    /// Waits until the reservation is ready.
    ///
    /// # Cancel safety
    /// A dropped call drops the reservation, which cancels it.
    pub async fn wait(mut self) {
        self.backend.due(self.ready_at).await;
        self.armed = false;
    }

    /// Cancels the reservation and returns the refund, in tokens: the part that no later
    /// reservation has used; 0 once it is ready ([L7]).
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` if the store did not answer in time; then the cancel stays
    /// queued.
    ///
    /// # Cancel safety
    /// A dropped call queues the cancel.
    ///
    /// [L7]: crate::contract#l7
    pub async fn cancel(mut self) -> Result<u64> {
        if !self.can_refund() {
            self.armed = false;
            return Ok(0);
        }
        let refunded = self.backend.cancel(self.ticket).await;
        self.armed = refunded.is_err();
        refunded
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.armed && self.can_refund() {
            self.backend.abandon(self.ticket, self.ready_at);
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
