//! A harness for stores with a bug.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::Store;

use super::Bug;
use super::ledger::Ledger;
use super::store::MutantStore;
use stanchion_conformance::Harness;
use stanchion_conformance::faulty::Faults;

/// A harness whose stores have a bug. Without a bug, it shows that wrapping alone changes nothing.
#[derive(Debug)]
pub struct MutantHarness<H> {
    inner: H,
    bug: Option<Bug>,
    ledger: Arc<Ledger>,
}

impl<H: Harness> MutantHarness<H> {
    /// Wraps a harness; its stores get the bug.
    pub fn new(inner: H, bug: Option<Bug>) -> Self {
        Self { inner, bug, ledger: Arc::default() }
    }

    fn mutate(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(MutantStore::new(store, self.bug, &self.ledger))
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<H: Harness> Harness for MutantHarness<H> {
    async fn store(&self) -> Arc<dyn Store> {
        self.mutate(self.inner.store().await)
    }

    async fn forgetful_store(&self, retention: Duration) -> Option<Arc<dyn Store>> {
        Some(self.mutate(self.inner.forgetful_store(retention).await?))
    }

    async fn pass(&self, time: Duration) -> bool {
        self.inner.pass(time).await
    }

    async fn faulty_store(&self, faults: &Arc<Faults>) -> Option<Arc<dyn Store>> {
        Some(self.mutate(self.inner.faulty_store(faults).await?))
    }

    async fn leftover(&self) -> Option<usize> {
        self.inner.leftover().await
    }

    fn ttl(&self) -> Duration {
        self.inner.ttl()
    }

    async fn lose_data(&self) -> bool {
        let lost = self.inner.lose_data().await;
        if lost {
            self.ledger.forget();
        }
        lost
    }
}
