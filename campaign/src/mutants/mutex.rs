//! A mutex with a bug.

use std::mem::forget;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::{
    Detached, Error, FencingToken, Hold, Inspection, Mutex, MutexGuard, Result, Ticket, Ttl, clock,
};
use tokio::sync::oneshot;

use super::Bug;
use super::guard::MutantHoldBackend;
use super::ledger::{Counter, Ledger};

/// The delay of every second reply under [`Bug::DeadlineFromReply`].
const SLOW_REPLY: Duration = Duration::from_millis(300);
/// The interval after which a waiter that was not woken polls again.
const NEXT_POLL: Duration = Duration::from_secs(3);
/// The poll interval of waiters without a queue.
const SPIN: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct MutantMutex {
    inner: Arc<dyn Mutex>,
    bug: Option<Bug>,
    ledger: Arc<Ledger>,
    ttl: Option<Duration>,
}

impl MutantMutex {
    pub(super) fn new(
        inner: Arc<dyn Mutex>,
        bug: Option<Bug>,
        ledger: &Arc<Ledger>,
        ttl: Option<Duration>,
    ) -> Self {
        Self { inner, bug, ledger: Arc::clone(ledger), ttl }
    }

    /// Wraps a guard with the bug.
    async fn grant(&self, guard: MutexGuard) -> Result<MutexGuard> {
        let (ticket, mut token) = (guard.ticket(), guard.fencing_token());
        let mut deadline = None;
        match self.bug {
            Some(Bug::RestartedTokens) => {
                let name = self.inner.name();
                token = FencingToken::new(self.ledger.change(Counter::Tokens, name, |count| *count += 1))?;
            }
            Some(Bug::DeadlineFromReply) => {
                let number = self.ledger.change(Counter::Replies, self.inner.name(), |count| *count += 1);
                if number % 2 == 1 {
                    clock::sleep(SLOW_REPLY).await;
                }
                let belief = self.ttl.map(Ttl::new).transpose()?.map(Ttl::belief);
                deadline = belief.map(|belief| clock::now() + belief);
            }
            _ => {}
        }
        let backend = MutantHoldBackend::new(guard, Arc::clone(&self.inner), self.bug, deadline);
        Ok(MutexGuard::new(Hold::new(Arc::new(backend), ticket, token, 1)))
    }

    async fn grant_if(&self, guard: Option<MutexGuard>) -> Result<Option<MutexGuard>> {
        match guard {
            Some(guard) => self.grant(guard).await.map(Some),
            None => Ok(None),
        }
    }

    async fn lock_after_a_missed_wake_up(&self) -> Result<MutexGuard> {
        if let Some(guard) = self.inner.try_lock().await? {
            return Ok(guard);
        }
        let guard = self.inner.lock().await?;
        clock::sleep(NEXT_POLL).await;
        Ok(guard)
    }

    async fn lock_when_the_lease_is_over(&self) -> Result<MutexGuard> {
        if let Some(guard) = self.inner.try_lock().await? {
            return Ok(guard);
        }
        let guard = self.inner.lock().await?;
        clock::sleep(self.ttl.unwrap_or(Ttl::DEFAULT.get())).await;
        Ok(guard)
    }

    async fn lock_without_a_queue(&self) -> Result<MutexGuard> {
        let _waiting = Waiting::new(&self.ledger, self.inner.name());
        loop {
            if let Some(guard) = self.inner.try_lock().await? {
                return Ok(guard);
            }
            clock::sleep(SPIN).await;
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the background task is the bug")]
    async fn lock_in_the_background(&self) -> Result<MutexGuard> {
        let (report, reported) = oneshot::channel();
        let inner = Arc::clone(&self.inner);
        tokio::spawn(async move {
            if let Err(unheard) = report.send(inner.lock().await) {
                forget(unheard);
            }
        });
        reported.await.unwrap_or_else(|_| Err(Error::closed()))
    }
}

/// Counts a waiter that is not in the store's queue.
struct Waiting<'a> {
    ledger: &'a Ledger,
    name: &'a str,
}

impl<'a> Waiting<'a> {
    fn new(ledger: &'a Ledger, name: &'a str) -> Self {
        ledger.change(Counter::Waiters, name, |count| *count += 1);
        Self { ledger, name }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.ledger.change(Counter::Waiters, self.name, |count| *count = count.saturating_sub(1));
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Mutex for MutantMutex {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn lock(&self) -> Result<MutexGuard> {
        let guard = match self.bug {
            Some(Bug::LostWakeUp) => self.lock_after_a_missed_wake_up().await?,
            Some(Bug::LateGrant) => self.lock_when_the_lease_is_over().await?,
            Some(Bug::Barging) => self.lock_without_a_queue().await?,
            Some(Bug::CancelledAcquireLeaks) => self.lock_in_the_background().await?,
            _ => self.inner.lock().await?,
        };
        self.grant(guard).await
    }

    async fn try_lock(&self) -> Result<Option<MutexGuard>> {
        self.grant_if(self.inner.try_lock().await?).await
    }

    async fn lock_for(&self, limit: Duration) -> Result<Option<MutexGuard>> {
        if self.bug == Some(Bug::ShortLimitIsNone) && !limit.is_zero() && limit.as_millis() == 0 {
            return self.lock().await.map(Some);
        }
        self.grant_if(self.inner.lock_for(limit).await?).await
    }

    async fn attach(&self, detached: &Detached) -> Result<MutexGuard> {
        self.grant(self.inner.attach(detached).await?).await
    }

    async fn inspect(&self) -> Result<Inspection> {
        let mut state = self.inner.inspect().await?;
        state.waiters += self.ledger.count(Counter::Waiters, self.inner.name());
        Ok(state)
    }

    async fn force_unlock(&self) -> Result<bool> {
        self.inner.force_unlock().await
    }

    async fn force_unlock_of(&self, ticket: Ticket) -> Result<bool> {
        self.inner.force_unlock_of(ticket).await
    }
}
