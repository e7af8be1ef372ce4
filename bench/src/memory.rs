//! The memory store and its peers: what people use in one process without it.

use std::num::NonZeroU32;
use std::sync::Arc;

use dashmap::DashMap;
use governor::{DefaultKeyedRateLimiter, RateLimiter};
use stanchion_core::{Limiter, LimiterOptions, Mutex, MutexOptions, Quota, Result, Store};
use stanchion_memory::MemoryStore;
use tokio::sync::{Mutex as TokioMutex, OwnedMutexGuard};

/// The name or key that everybody uses.
pub const NAME: &str = "invoices/42";

/// A mutex of the memory store, as its users hold it.
///
/// # Errors
/// None is expected.
pub fn mutex() -> Result<Arc<dyn Mutex>> {
    MemoryStore::new().mutex(NAME, MutexOptions::default())
}

/// A limiter of the memory store that never refuses at the speed of this machine.
///
/// # Errors
/// None is expected.
pub fn limiter() -> Result<Arc<dyn Limiter>> {
    MemoryStore::new().limiter(NAME, LimiterOptions::new(Quota::per_second(RATE.get().into())))
}

/// The same of `governor`.
#[must_use]
pub fn keyed_governor() -> DefaultKeyedRateLimiter<String> {
    RateLimiter::keyed(governor::Quota::per_second(RATE))
}

const RATE: NonZeroU32 = NonZeroU32::new(100_000_000).expect("not zero");

/// The usual way to lock by name in one process: a map of mutexes, from which the last user takes the entry out.
#[derive(Debug, Default)]
pub struct KeyedMutex {
    map: DashMap<String, Arc<TokioMutex<()>>>,
}

/// A locked key.
#[derive(Debug)]
pub struct KeyedGuard<'a> {
    keyed: &'a KeyedMutex,
    key: &'a str,
    guard: Option<OwnedMutexGuard<()>>,
}

impl KeyedMutex {
    /// Locks a key.
    pub async fn lock<'a>(&'a self, key: &'a str) -> KeyedGuard<'a> {
        let found = self.map.get(key).map(|mutex| Arc::clone(&mutex));
        let mutex = found.unwrap_or_else(|| Arc::clone(&self.map.entry(key.to_owned()).or_default()));
        KeyedGuard { keyed: self, key, guard: Some(mutex.lock_owned().await) }
    }
}

impl Drop for KeyedGuard<'_> {
    fn drop(&mut self) {
        self.guard = None;
        self.keyed.map.remove_if(self.key, |_, mutex| Arc::strong_count(mutex) == 1);
    }
}
