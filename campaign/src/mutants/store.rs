//! A store with a bug.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::{
    BloomFilter, BloomOptions, Capabilities, Limiter, LimiterOptions, ListOptions, ListPage, Mutex,
    MutexOptions, OnMismatch, Result, Semaphore, SemaphoreOptions, Stats, Store, WaitGroup, WaitGroupOptions,
};

use super::Bug;
use super::bloom_filter::MutantBloomFilter;
use super::ledger::Ledger;
use super::limiter::{MutantLimiter, rounded};
use super::mutex::MutantMutex;
use super::semaphore::MutantSemaphore;
use super::wait_group::MutantWaitGroup;

/// Wraps a store; the wrapper has the bug.
#[must_use]
pub fn mutate(store: Arc<dyn Store>, bug: Bug) -> Arc<dyn Store> {
    Arc::new(MutantStore::new(store, Some(bug), &Arc::default()))
}

#[derive(Debug)]
pub(super) struct MutantStore {
    inner: Arc<dyn Store>,
    bug: Option<Bug>,
    ledger: Arc<Ledger>,
}

impl MutantStore {
    pub(super) fn new(inner: Arc<dyn Store>, bug: Option<Bug>, ledger: &Arc<Ledger>) -> Self {
        Self { inner, bug, ledger: Arc::clone(ledger) }
    }

    fn name(&self, name: &str) -> String {
        if self.bug == Some(Bug::FoldedNames) { name.to_lowercase() } else { name.to_owned() }
    }

    /// Keeps an object for ever, if that is the bug.
    fn used<T: Clone + Send + 'static>(&self, object: &T) {
        if self.bug == Some(Bug::IdleNamesAreKept) {
            self.ledger.keep(object.clone());
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for MutantStore {
    fn mutex(&self, name: &str, mut options: MutexOptions) -> Result<Arc<dyn Mutex>> {
        let ttl = options.hold.ttl;
        if self.bug == Some(Bug::HalfLease) {
            options.hold.ttl = ttl.map(|ttl| ttl / 2);
        }
        let inner = self.inner.mutex(&self.name(name), options)?;
        self.used(&inner);
        Ok(Arc::new(MutantMutex::new(inner, self.bug, &self.ledger, ttl)))
    }

    fn semaphore(&self, name: &str, mut options: SemaphoreOptions) -> Result<Arc<dyn Semaphore>> {
        if self.bug == Some(Bug::SilentMismatch) {
            options.on_mismatch = OnMismatch::Adopt;
        }
        let permits = options.permits;
        let inner = self.inner.semaphore(&self.name(name), options)?;
        self.used(&inner);
        Ok(Arc::new(MutantSemaphore::new(inner, self.bug, &self.ledger, permits)))
    }

    fn wait_group(&self, name: &str, options: WaitGroupOptions) -> Result<Arc<dyn WaitGroup>> {
        let inner = self.inner.wait_group(&self.name(name), options)?;
        self.used(&inner);
        Ok(Arc::new(MutantWaitGroup::new(inner, self.bug)))
    }

    fn limiter(&self, name: &str, mut options: LimiterOptions) -> Result<Arc<dyn Limiter>> {
        if self.bug == Some(Bug::RoundedInterval) {
            options.quota = rounded(options.quota);
        }
        if self.bug == Some(Bug::DoubledBurst) {
            options.quota = options.quota.burst(2 * options.quota.burst_tokens());
        }
        let inner = self.inner.limiter(&self.name(name), options)?;
        self.used(&inner);
        Ok(Arc::new(MutantLimiter::new(inner, self.bug)))
    }

    fn bloom_filter(&self, name: &str, mut options: BloomOptions) -> Result<Arc<dyn BloomFilter>> {
        if self.bug == Some(Bug::SilentMismatch) {
            options.on_mismatch = OnMismatch::Adopt;
        }
        let inner = self.inner.bloom_filter(&self.name(name), options)?;
        self.used(&inner);
        Ok(Arc::new(MutantBloomFilter::new(inner, self.bug)))
    }

    async fn namespace(&self, namespace: &str) -> Result<Arc<dyn Store>> {
        let inner = if self.bug == Some(Bug::OneNamespace) {
            Arc::clone(&self.inner)
        } else {
            self.inner.namespace(namespace).await?
        };
        Ok(Arc::new(Self::new(inner, self.bug, &self.ledger)))
    }

    async fn list(&self, options: ListOptions) -> Result<ListPage> {
        let whole = options.prefix.clone();
        if self.bug == Some(Bug::GlobPrefix) && whole.contains(['*', '?']) {
            // The characters of a pattern are taken for one.
            let (literal, _) = whole.split_at(whole.find(['*', '?']).unwrap_or(whole.len()));
            return self.inner.list(options.prefix(literal)).await;
        }
        let mut page = self.inner.list(options).await?;
        if self.bug == Some(Bug::ListsFirstPageOnly) {
            page.next = None;
        }
        Ok(page)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn stats(&self) -> Stats {
        self.inner.stats()
    }

    async fn ping(&self) -> Result<()> {
        self.inner.ping().await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }

    async fn drain(&self) -> Result<()> {
        self.inner.drain().await
    }

    fn drain_blocking(&self, timeout: Duration) -> Result<()> {
        self.inner.drain_blocking(timeout)
    }
}
