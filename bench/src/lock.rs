//! The interface of sides with a lock, this library's and the peers'.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// Several locks, one name as several processes have it or several names: each clone is the next
/// one.
#[derive(Debug)]
pub struct Processes<L> {
    all: Arc<Vec<L>>,
    next: Arc<AtomicUsize>,
    mine: usize,
}

impl<L> Processes<L> {
    /// Joins the locks of the processes.
    #[must_use]
    pub fn new(all: Vec<L>) -> Self {
        Self { all: Arc::new(all), next: Arc::default(), mine: 0 }
    }
}

impl<L> Clone for Processes<L> {
    fn clone(&self) -> Self {
        let mine = self.next.fetch_add(1, Ordering::Relaxed) % self.all.len();
        Self { all: Arc::clone(&self.all), next: Arc::clone(&self.next), mine }
    }
}

impl<L: Lock> Lock for Processes<L> {
    type Guard = L::Guard;

    async fn lock(&self) -> Result<L::Guard, Failure> {
        self.all[self.mine].lock().await
    }

    async fn release(&self, held: L::Guard) -> Result<(), Failure> {
        self.all[self.mine].release(held).await
    }
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
