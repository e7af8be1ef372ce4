//! A Bloom filter with a bug.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use stanchion_core::bloom::{HEADER_BYTES, Shape};
use stanchion_core::{BloomFilter, ErrorKind, Result};
use tokio::sync::OnceCell;

use super::Bug;

#[derive(Debug)]
pub(super) struct MutantBloomFilter {
    inner: Arc<dyn BloomFilter>,
    bug: Option<Bug>,
    opened: OnceCell<()>,
}

impl MutantBloomFilter {
    pub(super) fn new(inner: Arc<dyn BloomFilter>, bug: Option<Bug>) -> Self {
        Self { inner, bug, opened: OnceCell::new() }
    }

    /// Clears the filter before the first call, if that is the bug.
    async fn open(&self) -> Result<()> {
        if self.bug == Some(Bug::OpeningClears) {
            self.opened.get_or_try_init(|| self.inner.clear()).await?;
        }
        Ok(())
    }

    /// Makes the call, and repeats it after a loss, if that is the bug.
    async fn call<T, F: Future<Output = Result<T>>>(&self, call: impl Fn() -> F) -> Result<T> {
        self.open().await?;
        match call().await {
            Err(error) if self.bug == Some(Bug::LossIsEmpty) && error.kind() == ErrorKind::StateLost => {
                call().await
            }
            result => result,
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl BloomFilter for MutantBloomFilter {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    async fn insert(&self, item: &[u8]) -> Result<bool> {
        self.call(|| self.inner.insert(item)).await
    }

    async fn insert_many(&self, items: &[&[u8]]) -> Result<Vec<bool>> {
        if self.bug != Some(Bug::LookedUpThenInserted) {
            return self.call(|| self.inner.insert_many(items)).await;
        }
        let contained = self.inner.contains_many(items).await?;
        tokio::task::yield_now().await;
        self.inner.insert_many(items).await?;
        Ok(contained.into_iter().map(|contained| !contained).collect())
    }

    async fn contains(&self, item: &[u8]) -> Result<bool> {
        self.call(|| self.inner.contains(item)).await
    }

    async fn contains_many(&self, items: &[&[u8]]) -> Result<Vec<bool>> {
        self.call(|| self.inner.contains_many(items)).await
    }

    async fn len_estimate(&self) -> Result<u64> {
        self.call(|| self.inner.len_estimate()).await
    }

    async fn fill_ratio(&self) -> Result<f64> {
        self.call(|| self.inner.fill_ratio()).await
    }

    async fn union_with(&self, other: &str) -> Result<()> {
        self.call(|| self.inner.union_with(other)).await
    }

    async fn clear(&self) -> Result<()> {
        self.call(|| self.inner.clear()).await
    }

    async fn export(&self) -> Result<Vec<u8>> {
        let mut exported = self.call(|| self.inner.export()).await?;
        if self.bug == Some(Bug::LowestBitFirst) {
            exported.iter_mut().skip(HEADER_BYTES).for_each(|byte| *byte = byte.reverse_bits());
        }
        Ok(exported)
    }

    async fn import(&self, exported: &[u8]) -> Result<()> {
        self.call(|| self.inner.import(exported)).await
    }
}
