//! The backend of a reservation.

use async_trait::async_trait;
use stanchion_core::clock::Instant;
use stanchion_core::{ReservationBackend, Result, Ticket};

use super::handle::LimiterHandle;

#[async_trait]
impl ReservationBackend for LimiterHandle {
    fn is_due(&self, ready_at: Instant) -> bool {
        self.clock().is_past(ready_at)
    }

    async fn due(&self, ready_at: Instant) {
        self.clock().sleep_until(ready_at).await;
    }

    async fn cancel(&self, ticket: Ticket) -> Result<u64> {
        Ok(self.refund(ticket))
    }

    fn abandon(&self, ticket: Ticket, _: Instant) {
        self.refund(ticket);
    }
}
