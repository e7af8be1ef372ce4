//! Objects and waiters on the store beside the measured mutex.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{Mutex, MutexGuard, MutexOptions, Store};
use tokio::task::JoinSet;

use crate::Failure;

/// The kind of objects in a crowd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Waiters for one mutex.
    Waiters,
    /// Mutexes that are held.
    Holds,
    /// Names that were used and are free.
    Names,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Waiters, Self::Holds, Self::Names];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiters => "waiters",
            Self::Holds => "holds",
            Self::Names => "names",
        }
    }

    /// Returns its description.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Self::Waiters => "that many wait for another mutex of the store",
            Self::Holds => "that many other mutexes are held",
            Self::Names => "that many other names were used before",
        }
    }
}

/// Sizes of a crowd, from few to many.
pub const COUNTS: [usize; 4] = [10, 100, 1000, 10_000];

/// A crowd on one store, and an uncontended mutex of that store.
#[derive(Debug)]
pub struct Crowd {
    /// The uncontended mutex.
    pub free: Arc<dyn Mutex>,
    held: Vec<MutexGuard>,
    waiting: JoinSet<()>,
}

impl Crowd {
    /// Creates `count` objects of a kind, and returns when all of them exist.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn gather(store: &Arc<dyn Store>, kind: Kind, count: usize) -> Result<Self, Failure> {
        let free = store.mutex("free", MutexOptions::default())?;
        let mut crowd = Self { free, held: Vec::new(), waiting: JoinSet::new() };
        match kind {
            Kind::Waiters => crowd.wait(store.mutex("wanted", MutexOptions::default())?, count).await?,
            Kind::Holds => crowd.held = hold(store, count).await?,
            Kind::Names => {
                for guard in hold(store, count).await? {
                    guard.release().await?;
                }
            }
        }
        Ok(crowd)
    }

    async fn wait(&mut self, mutex: Arc<dyn Mutex>, count: usize) -> Result<(), Failure> {
        self.held.push(mutex.lock().await?);
        for _ in 0..count {
            let mutex = Arc::clone(&mutex);
            self.waiting.spawn(async move { drop(mutex.lock().await) });
        }
        while mutex.inspect().await?.waiters < u64::try_from(count)? {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

/// Locks `count` mutexes of a store.
async fn hold(store: &Arc<dyn Store>, count: usize) -> Result<Vec<MutexGuard>, Failure> {
    let mut locking = JoinSet::new();
    for index in 0..count {
        let mutex = store.mutex(&format!("other-{index}"), MutexOptions::default())?;
        locking.spawn(async move { mutex.lock().await });
    }
    let mut held = Vec::with_capacity(count);
    while let Some(guard) = locking.join_next().await {
        held.push(guard??);
    }
    Ok(held)
}
