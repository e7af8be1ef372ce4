//! A guard that wraps another guard and has a bug.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use async_trait::async_trait;
use stanchion_core::clock::{self, Instant};
use stanchion_core::{
    Detached, Error, ErrorKind, FencingToken, HoldBackend, Mutex, MutexGuard, Result, Ticket, Ttl,
};

use super::Bug;

/// Backs a hold with the inner guard.
#[derive(Debug)]
pub(super) struct MutantHoldBackend {
    guard: RwLock<Option<Arc<MutexGuard>>>,
    mutex: Arc<dyn Mutex>,
    bug: Option<Bug>,
    /// Replaces the inner guard's deadline.
    deadline: Option<Instant>,
    /// The store has answered since the deadline.
    replied: Arc<AtomicBool>,
}

/// Waits for the deadline, and then for an answer of the store.
async fn wait_for_store_reply(guard: Weak<MutexGuard>, mutex: Arc<dyn Mutex>, replied: Arc<AtomicBool>) {
    let deadline = || guard.upgrade().filter(|guard| guard.is_held()).and_then(|guard| guard.deadline());
    while let Some(deadline) = deadline() {
        clock::sleep(Instant::from_std(deadline).saturating_duration_since(clock::now())).await;
    }
    while mutex.inspect().await.is_err() {}
    replied.store(true, Ordering::Relaxed);
}

impl MutantHoldBackend {
    #[expect(clippy::disallowed_methods, reason = "the background task is a part of the bug")]
    pub(super) fn new(
        guard: MutexGuard,
        mutex: Arc<dyn Mutex>,
        bug: Option<Bug>,
        deadline: Option<Instant>,
    ) -> Self {
        let (guard, replied) = (Arc::new(guard), Arc::default());
        if bug == Some(Bug::BelievesWhileAsking) {
            tokio::spawn(wait_for_store_reply(
                Arc::downgrade(&guard),
                Arc::clone(&mutex),
                Arc::clone(&replied),
            ));
        }
        Self { guard: RwLock::new(Some(guard)), mutex, bug, deadline, replied }
    }

    fn guard(&self) -> Option<Arc<MutexGuard>> {
        self.guard.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the inner guard, to end it. The last outer guard ends here, so there is no other
    /// reference.
    fn take(&self) -> Result<MutexGuard> {
        let guard = self.guard.write().unwrap_or_else(PoisonError::into_inner).take();
        guard.and_then(Arc::into_inner).ok_or_else(Error::lost)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl HoldBackend for MutantHoldBackend {
    fn is_held(&self, _ticket: Ticket) -> bool {
        match (self.guard(), self.deadline) {
            (None, _) => false,
            (Some(_), _) if self.bug == Some(Bug::HeldUntilTold) => true,
            (Some(_), _) if self.bug == Some(Bug::BelievesWhileAsking) => {
                !self.replied.load(Ordering::Relaxed)
            }
            (Some(_), Some(deadline)) => clock::now() < deadline,
            (Some(guard), None) => guard.is_held(),
        }
    }

    fn deadline(&self, _ticket: Ticket) -> Option<Instant> {
        self.deadline.or_else(|| self.guard()?.deadline().map(Instant::from_std))
    }

    fn name(&self) -> &str {
        self.mutex.name()
    }

    fn context(&self, operation: &'static str, error: Error) -> Error {
        error.context(operation, "mutant", self.mutex.name())
    }

    async fn lost(&self, _ticket: Ticket) {
        if self.bug == Some(Bug::NeverLost) {
            pending::<()>().await;
        }
        if let Some(guard) = self.guard() {
            guard.lost().await;
        }
    }

    fn abandon(&self, _ticket: Ticket) {
        drop(self.take());
    }

    async fn release(&self, _ticket: Ticket) -> Result<()> {
        let released = self.take()?.release().await;
        match released {
            Err(error) if self.bug == Some(Bug::ReleaseWithoutOwner) && error.kind() == ErrorKind::Lost => {
                self.mutex.force_unlock().await.map(drop)
            }
            released => released,
        }
    }

    async fn detach(&self, _ticket: Ticket, _token: FencingToken, lease: Ttl) -> Result<Detached> {
        self.take()?.detach(lease).await
    }
}
