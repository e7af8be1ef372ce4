//! The interface of sides with a lock, this library's and the peers'.

use std::sync::Arc;

use stanchion_core::{Mutex, MutexGuard, Permit, Semaphore};

use crate::Failure;

/// A lock. A clone locks the same name, as another task would.
pub trait Lock: Clone + Send + Sync + 'static {
    /// The guard of a holder.
    type Guard: Send + 'static;

    /// Waits until the lock is held.
    fn lock(&self) -> impl Future<Output = Result<Self::Guard, Failure>> + Send;

    /// Releases the lock, and waits until that is done where the side can.
    fn release(&self, held: Self::Guard) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// This library's mutex on any store.
impl Lock for Arc<dyn Mutex> {
    type Guard = MutexGuard;

    async fn lock(&self) -> Result<MutexGuard, Failure> {
        Ok(Mutex::lock(&**self).await?)
    }

    async fn release(&self, held: MutexGuard) -> Result<(), Failure> {
        Ok(held.release().await?)
    }
}

/// A permit of this library's semaphore on any store.
impl Lock for Arc<dyn Semaphore> {
    type Guard = Permit;

    async fn lock(&self) -> Result<Permit, Failure> {
        Ok(self.acquire().await?)
    }

    async fn release(&self, held: Permit) -> Result<(), Failure> {
        Ok(held.release().await?)
    }
}
