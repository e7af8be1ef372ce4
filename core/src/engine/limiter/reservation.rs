//! The backends of reservations, and the refund of reservations whose caller dropped the call.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::handle::LimiterState;
use super::local::Local;
use crate::clock::{sleep_until, timeout_at};
use crate::engine::contained::unanswered;
use crate::engine::retrying::{Attempts, WaitLimit};
use crate::engine::shared::EngineHandle;
use crate::engine::timing::engine_now as now;
use crate::spi::{Object, Refund, StepsExt};
use crate::{ReservationBackend, Result, Ticket};

/// A reservation that a call under way makes. Dropped while its outcome is unknown, it queues the
/// refund (C4); while it exists, closing the store object queues the refund.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    engine: &'a EngineHandle,
    object: &'a Object,
    ticket: Ticket,
    ready_by: Option<Instant>,
    is_open: bool,
}

impl<'a> Claim<'a> {
    /// Registers a request that is about to be sent, for a reservation at most `max_wait` µs ahead
    /// of the store's decision, which comes by `end`.
    ///
    /// # Errors
    /// `Closed`.
    pub(super) fn sent(
        handle: &'a LimiterState,
        ticket: Ticket,
        max_wait: u64,
        end: Instant,
    ) -> Result<Self> {
        let LimiterState { engine, object, .. } = handle;
        let ready_by = end.checked_add(Duration::from_micros(max_wait));
        engine.shared.limits.claim(ticket, object, ready_by)?;
        Ok(Self { engine, object, ticket, ready_by, is_open: true })
    }

    /// Notes that nothing is left at the store, or that what is left has an owner.
    pub(super) fn resolved(&mut self) {
        self.is_open = false;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        // Queued before the claim is removed, so that `close` finds one of the two.
        if self.is_open {
            self.engine.shared.send_refund(self.object, self.ticket, self.ready_by);
        }
        self.engine.shared.limits.claims().by_ticket.remove(&self.ticket);
    }
}

impl LimiterState {
    /// Sends a refund until it is answered, or the time of a request is over.
    async fn refund(&self, ticket: Ticket) -> Result<u64> {
        let end = self.engine.shared.request_end(None);
        let refund = Refund { object: self.object.clone(), ticket };
        let mut attempts = Attempts::within(WaitLimit::Until(end));
        loop {
            let answer = timeout_at(end, self.engine.shared.steps.ask(refund.clone())).await;
            match answer.unwrap_or_else(|_| Err(unanswered())) {
                Ok(refunded) => return Ok(refunded),
                Err(error) => attempts.ride_out(error).await?,
            }
        }
    }
}

/// Reservations made by the store.
#[async_trait]
impl ReservationBackend for LimiterState {
    fn is_due(&self, ready_at: Instant) -> bool {
        now() >= ready_at
    }

    async fn due(&self, ready_at: Instant) {
        self.engine.shared.on(sleep_until(ready_at)).await;
    }

    async fn cancel(&self, ticket: Ticket) -> Result<u64> {
        self.engine.shared.check_process().map_err(|error| self.context("cancel", error))?;
        self.local.forget();
        self.engine.shared.on(self.refund(ticket)).await.map_err(|error| self.context("cancel", error))
    }

    fn abandon(&self, ticket: Ticket, ready_at: Instant) {
        if self.engine.shared.is_forked() {
            return;
        }
        self.local.forget();
        self.engine.shared.send_refund(&self.object, ticket, Some(ready_at));
    }
}

/// Reservations of this process's share, and those that the outage policy allowed.
#[async_trait]
impl ReservationBackend for Local {
    fn is_due(&self, ready_at: Instant) -> bool {
        now() >= ready_at
    }

    async fn due(&self, ready_at: Instant) {
        sleep_until(ready_at).await;
    }

    async fn cancel(&self, ticket: Ticket) -> Result<u64> {
        Ok(self.cancel_share(ticket))
    }

    fn abandon(&self, ticket: Ticket, _: Instant) {
        self.cancel_share(ticket);
    }
}
