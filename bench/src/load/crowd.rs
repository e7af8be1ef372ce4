//! What else is there while something is measured.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{Mutex, MutexGuard, MutexOptions, Store};
use tokio::task::JoinSet;

use crate::Failure;

/// What there is many of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Those that wait for one mutex.
    Waiters,
    /// Mutexes that are held.
    Holds,
    /// Names that were used and are free.
    Names,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Waiters, Self::Holds, Self::Names];

    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiters => "waiters",
            Self::Holds => "holds",
            Self::Names => "names",
        }
    }

    /// In a clause.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Self::Waiters => "that many wait for another mutex of the store",
            Self::Holds => "that many other mutexes are held",
            Self::Names => "that many other names were used before",
        }
    }
}

/// How many there are, from few to many.
pub const COUNTS: [usize; 4] = [10, 100, 1000, 10_000];

/// Many on one store, and a mutex of it that nobody wants.
#[derive(Debug)]
pub struct Crowd {
    /// The mutex that nobody wants.
    pub free: Arc<dyn Mutex>,
    held: Vec<MutexGuard>,
    waiting: JoinSet<()>,
}

impl Crowd {
    /// So many of a kind; returns when all of them are there.
    ///
    /// # Errors
    /// The store's.
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

/// So many mutexes of a store, all held.
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
