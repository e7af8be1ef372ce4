//! What every side does that locks something, ours and the peers' alike.

use std::sync::Arc;

use stanchion_core::{Mutex, MutexGuard, Permit, Semaphore};

use crate::Failure;

/// Something that is held and given back. A clone locks the same thing, as another task would.
pub trait Lock: Clone + Send + Sync + 'static {
    /// What the holder has.
    type Held: Send + 'static;

    /// Waits until it is held.
    fn lock(&self) -> impl Future<Output = Result<Self::Held, Failure>> + Send;

    /// Gives it back, and waits until that is done where the side can.
    fn release(&self, held: Self::Held) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Ours: a mutex of any store.
impl Lock for Arc<dyn Mutex> {
    type Held = MutexGuard;

    async fn lock(&self) -> Result<MutexGuard, Failure> {
        Ok(Mutex::lock(&**self).await?)
    }

    async fn release(&self, held: MutexGuard) -> Result<(), Failure> {
        Ok(held.release().await?)
    }
}

/// Ours: a permit of a semaphore of any store.
impl Lock for Arc<dyn Semaphore> {
    type Held = Permit;

    async fn lock(&self) -> Result<Permit, Failure> {
        Ok(self.acquire().await?)
    }

    async fn release(&self, held: Permit) -> Result<(), Failure> {
        Ok(held.release().await?)
    }
}
