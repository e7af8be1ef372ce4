//! Gathers payloads until they fill an object.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use crate::batch::Batch;
use crate::collection::Collection;
use crate::storage::Storage;

/// The open batch, to which workers add payloads, and the storage for full batches.
#[derive(Debug)]
pub struct Batches {
    open: Mutex<Batch>,
    full_at: usize,
    storage: Storage,
}

impl Batches {
    /// Creates batches that are full at `full_at` bytes; the last collection may take a batch
    /// beyond that.
    pub fn new(storage: Storage, full_at: usize) -> Self {
        Self { open: Mutex::default(), full_at, storage }
    }

    /// Adds a collection to the open batch. The caller that fills the batch stores it, while other
    /// callers fill the next one. At most one batch is open, and each worker and the task that
    /// stores old batches store at most one at a time.
    ///
    /// # Cancel safety
    ///
    /// Not cancel-safe: a batch that was being stored is lost, and missing in [`Storage::stored`].
    pub async fn add(&self, collection: Collection, room: OwnedSemaphorePermit) {
        let full = {
            let mut open = self.open();
            open.push(&collection, room);
            (open.lines.len() >= self.full_at).then(|| mem::take(&mut *open))
        };
        drop(collection);
        self.store(full).await;
    }

    /// Stores the open batch if its first payload arrived at least `age` ago.
    ///
    /// # Cancel safety
    ///
    /// Not cancel-safe, as [`add`](Self::add).
    pub async fn store_older_than(&self, age: Duration) {
        let old = {
            let mut open = self.open();
            open.is_older_than(age).then(|| mem::take(&mut *open))
        };
        self.store(old).await;
    }

    /// Returns the storage.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    async fn store(&self, batch: Option<Batch>) {
        if let Some(batch) = batch {
            self.storage.store(batch).await;
        }
    }

    fn open(&self) -> MutexGuard<'_, Batch> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
