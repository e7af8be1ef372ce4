//! The memory store's harness.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stanchion_conformance::Harness;
use stanchion_core::Store;
use stanchion_memory::MemoryStore;

/// A state of its own; each client is another store object over it.
pub(crate) struct MemoryHarness {
    ttl: Duration,
    root: MemoryStore,
    forgetful: Mutex<Option<MemoryStore>>,
}

impl MemoryHarness {
    pub(crate) fn new() -> Self {
        Self::with_ttl(Duration::from_millis(400))
    }

    /// Makes a harness whose cases use leases of this length.
    pub(crate) fn with_ttl(ttl: Duration) -> Self {
        Self { ttl, root: MemoryStore::new(), forgetful: Mutex::new(None) }
    }
}

#[async_trait]
impl Harness for MemoryHarness {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.root.client())
    }

    async fn forgetful_store(&self, retention: Duration) -> Option<Arc<dyn Store>> {
        let store = MemoryStore::builder().retention(retention).build();
        let client = store.client();
        *self.forgetful.lock().unwrap_or_else(PoisonError::into_inner) = Some(store);
        Some(Arc::new(client))
    }

    async fn leftover(&self) -> Option<usize> {
        let forgetful = self.forgetful.lock().unwrap_or_else(PoisonError::into_inner);
        Some(self.root.len() + forgetful.as_ref().map_or(0, MemoryStore::len))
    }

    fn ttl(&self) -> Duration {
        self.ttl
    }

    async fn lose_data(&self) -> bool {
        self.root.simulate_data_loss();
        true
    }
}
