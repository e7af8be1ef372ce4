//! Mutexes and semaphores as one type: the hold of a command.

use std::time::Duration;

use stanchion::{Guard, GuardKind, Inspection, Mutex, OfMutex, OfSemaphore, Result, Semaphore};

/// A mutex, or a semaphore of which one permit is taken.
pub(crate) trait Lock: Send + Sync {
    type Kind: GuardKind;

    async fn try_take(&self) -> Result<Option<Guard<Self::Kind>>>;

    /// Waits for the turn, for at most `limit`.
    async fn take(&self, limit: Option<Duration>) -> Result<Option<Guard<Self::Kind>>>;

    async fn look(&self) -> Result<Inspection>;
}

impl Lock for dyn Mutex {
    type Kind = OfMutex;

    async fn try_take(&self) -> Result<Option<Guard<OfMutex>>> {
        self.try_lock().await
    }

    async fn take(&self, limit: Option<Duration>) -> Result<Option<Guard<OfMutex>>> {
        match limit {
            None => self.lock().await.map(Some),
            Some(limit) => self.lock_for(limit).await,
        }
    }

    async fn look(&self) -> Result<Inspection> {
        self.inspect().await
    }
}

impl Lock for dyn Semaphore {
    type Kind = OfSemaphore;

    async fn try_take(&self) -> Result<Option<Guard<OfSemaphore>>> {
        self.try_acquire().await
    }

    async fn take(&self, limit: Option<Duration>) -> Result<Option<Guard<OfSemaphore>>> {
        match limit {
            None => self.acquire().await.map(Some),
            Some(limit) => self.acquire_for(limit).await,
        }
    }

    async fn look(&self) -> Result<Inspection> {
        self.inspect().await
    }
}
