//! Hand-written locking by name in one process: a map of mutexes.

use std::sync::Arc;

use dashmap::DashMap;
use tokio::sync::{Mutex as TokioMutex, OwnedMutexGuard};

use crate::Failure;
use crate::lock::Lock;

/// The usual way to lock by name in one process: a map of mutexes, from which the last user removes
/// the entry.
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

/// One key of a map that lives as long as the process.
#[derive(Clone, Copy, Debug)]
pub struct Keyed {
    /// The map.
    pub map: &'static KeyedMutex,
    /// The key.
    pub key: &'static str,
}

impl Lock for Keyed {
    type Guard = KeyedGuard<'static>;

    async fn lock(&self) -> Result<KeyedGuard<'static>, Failure> {
        Ok(self.map.lock(self.key).await)
    }

    async fn release(&self, held: KeyedGuard<'static>) -> Result<(), Failure> {
        drop(held);
        Ok(())
    }
}
