//! A limiter with a bug.

use std::mem::forget;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::clock::{self, Instant};
use stanchion_core::limiter::ExactQuota;
use stanchion_core::{Decision, Error, Limiter, Quota, Reservation, ReservationBackend, Result, Ticket};

use super::Bug;

/// Rounds the quota to an interval of whole milliseconds for one token.
pub(super) fn rounded(quota: Quota) -> Quota {
    let interval = quota.period().as_millis() / u128::from(quota.amount().max(1));
    let interval = u64::try_from(interval.max(1)).unwrap_or(u64::MAX);
    Quota::per(1, Duration::from_millis(interval)).burst(quota.burst_tokens())
}

#[derive(Debug)]
pub(super) struct MutantLimiter {
    inner: Arc<dyn Limiter>,
    bug: Option<Bug>,
}

impl MutantLimiter {
    pub(super) fn new(inner: Arc<dyn Limiter>, bug: Option<Bug>) -> Self {
        Self { inner, bug }
    }
}

/// Backs a reservation with the inner one, and forgets the inner one on drop.
#[derive(Debug)]
struct Kept(Mutex<Option<Reservation>>);

impl Kept {
    fn take(&self) -> Option<Reservation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ReservationBackend for Kept {
    fn is_due(&self, ready_at: Instant) -> bool {
        clock::now() >= ready_at
    }

    async fn due(&self, ready_at: Instant) {
        clock::sleep(ready_at.saturating_duration_since(clock::now())).await;
        forget(self.take());
    }

    async fn cancel(&self, _ticket: Ticket) -> Result<u64> {
        let reservation = self.take();
        reservation.ok_or_else(Error::lost)?.cancel().await
    }

    fn abandon(&self, _ticket: Ticket, _ready_at: Instant) {
        forget(self.take());
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Limiter for MutantLimiter {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn allow(&self) -> Result<Decision> {
        self.inner.allow().await
    }

    async fn allow_n(&self, cost: u64) -> Result<Decision> {
        self.inner.allow_n(cost).await
    }

    async fn reserve(&self, max_wait: Duration) -> Result<Option<Reservation>> {
        self.reserve_n(1, max_wait).await
    }

    async fn reserve_n(&self, cost: u64, max_wait: Duration) -> Result<Option<Reservation>> {
        let reserved = self.inner.reserve_n(cost, max_wait).await?;
        if self.bug != Some(Bug::DroppedReservationIsKept) {
            return Ok(reserved);
        }
        Ok(reserved.map(|reservation| {
            let (ticket, ready_at) = (reservation.ticket(), Instant::from_std(reservation.ready_at()));
            let keeper = Kept(Mutex::new(Some(reservation)));
            Reservation::new(Arc::new(keeper), ticket, cost, ready_at)
        }))
    }

    async fn wait(&self) -> Result<()> {
        self.inner.wait().await
    }

    async fn wait_n(&self, cost: u64) -> Result<()> {
        self.inner.wait_n(cost).await
    }

    async fn wait_for(&self, timeout: Duration) -> Result<bool> {
        self.inner.wait_for(timeout).await
    }

    async fn wait_n_for(&self, cost: u64, limit: Duration) -> Result<bool> {
        self.inner.wait_n_for(cost, limit).await
    }

    async fn peek(&self) -> Result<Decision> {
        self.inner.peek().await
    }

    async fn until_full(&self) -> Result<()> {
        self.inner.until_full().await
    }

    async fn quota(&self) -> Result<ExactQuota> {
        self.inner.quota().await
    }

    async fn set_quota(&self, quota: Quota) -> Result<()> {
        self.inner.set_quota(quota).await
    }

    async fn reset(&self) -> Result<()> {
        self.inner.reset().await
    }
}
