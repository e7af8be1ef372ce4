//! A semaphore with a bug.

use std::future::pending;
use std::mem::forget;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::clock::{self, Instant};
use stanchion_core::{
    Detached, Error, FencingToken, Hold, HoldBackend, Inspection, Permit, Result, Semaphore, Ticket, Ttl,
};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::Bug;
use super::ledger::{Counter, Ledger};

#[derive(Debug)]
pub(super) struct MutantSemaphore {
    inner: Arc<dyn Semaphore>,
    bug: Option<Bug>,
    ledger: Arc<Ledger>,
    permits: u32,
}

impl MutantSemaphore {
    pub(super) fn new(
        inner: Arc<dyn Semaphore>,
        bug: Option<Bug>,
        ledger: &Arc<Ledger>,
        permits: u32,
    ) -> Self {
        Self { inner, bug, ledger: Arc::clone(ledger), permits }
    }

    /// Counts the permits, and takes them a moment later.
    async fn look_and_take(&self, count: u32) -> Result<Option<Permit>> {
        let name = self.inner.name();
        if self.ledger.count(Counter::Permits, name) + u64::from(count) > u64::from(self.permits) {
            return Ok(None);
        }
        yield_now().await;
        let taken = self.ledger.change(Counter::Permits, name, |taken| *taken += u64::from(count));
        let backend = CountedPermits { ledger: Arc::clone(&self.ledger), name: name.to_owned(), count };
        let hold = Hold::new(Arc::new(backend), Ticket::random(), FencingToken::new(taken)?, count);
        Ok(Some(Permit::new(hold)))
    }

    async fn look_again_and_again(&self, count: u32) -> Result<Permit> {
        loop {
            if let Some(permit) = self.look_and_take(count).await? {
                return Ok(permit);
            }
            clock::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Backs permits that exist only in the ledger.
#[derive(Debug)]
struct CountedPermits {
    ledger: Arc<Ledger>,
    name: String,
    count: u32,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl HoldBackend for CountedPermits {
    fn is_held(&self, _ticket: Ticket) -> bool {
        true
    }

    fn deadline(&self, _ticket: Ticket) -> Option<Instant> {
        None
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn context(&self, operation: &'static str, error: Error) -> Error {
        error.context(operation, "mutant", &self.name)
    }

    async fn lost(&self, _ticket: Ticket) {
        pending().await
    }

    fn abandon(&self, _ticket: Ticket) {
        let count = u64::from(self.count);
        self.ledger.change(Counter::Permits, &self.name, |taken| *taken = taken.saturating_sub(count));
    }

    async fn release(&self, ticket: Ticket) -> Result<()> {
        self.abandon(ticket);
        Ok(())
    }

    async fn detach(&self, _: Ticket, _: FencingToken, _: Ttl) -> Result<Detached> {
        Err(Error::lost())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Semaphore for MutantSemaphore {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn acquire(&self) -> Result<Permit> {
        if self.bug == Some(Bug::OverTheLimit) {
            return self.look_again_and_again(1).await;
        }
        self.inner.acquire().await
    }

    async fn acquire_many(&self, count: u32) -> Result<Permit> {
        if self.bug == Some(Bug::OverTheLimit) {
            return self.look_again_and_again(count).await;
        }
        self.inner.acquire_many(count).await
    }

    async fn try_acquire(&self) -> Result<Option<Permit>> {
        self.try_acquire_many(1).await
    }

    async fn try_acquire_many(&self, count: u32) -> Result<Option<Permit>> {
        if self.bug == Some(Bug::OverTheLimit) {
            return self.look_and_take(count).await;
        }
        let permit = self.inner.try_acquire_many(count).await?;
        if self.bug == Some(Bug::NewTicketOnRetry) && permit.is_some() {
            // Simulates a lost reply: the retry is a new request.
            forget(permit);
            return self.inner.try_acquire_many(count).await;
        }
        Ok(permit)
    }

    async fn acquire_for(&self, timeout: Duration) -> Result<Option<Permit>> {
        self.acquire_many_for(1, timeout).await
    }

    async fn acquire_many_for(&self, count: u32, limit: Duration) -> Result<Option<Permit>> {
        if self.bug == Some(Bug::OverTheLimit) {
            return timeout(limit, self.look_again_and_again(count)).await.ok().transpose();
        }
        self.inner.acquire_many_for(count, limit).await
    }

    async fn attach(&self, detached: &Detached) -> Result<Permit> {
        self.inner.attach(detached).await
    }

    async fn available(&self) -> Result<u32> {
        self.inner.available().await
    }

    async fn resize(&self, permits: u32) -> Result<()> {
        self.inner.resize(permits).await
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.inner.inspect().await
    }

    async fn force_release(&self, ticket: Ticket) -> Result<bool> {
        self.inner.force_release(ticket).await
    }
}
