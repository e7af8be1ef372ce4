//! What every side does that keeps a Bloom filter.

use std::sync::Arc;

use stanchion_core::BloomFilter;

use crate::Failure;

/// Takes items, and tells how many of them were new. A clone is the same filter.
pub trait Filter: Clone + Send + Sync + 'static {
    /// Inserts one.
    fn insert(&self, item: &[u8]) -> impl Future<Output = Result<bool, Failure>> + Send;

    /// Inserts many in one call.
    fn insert_many(&self, items: &[&[u8]]) -> impl Future<Output = Result<usize, Failure>> + Send;

    /// Whether it has one.
    fn contains(&self, item: &[u8]) -> impl Future<Output = Result<bool, Failure>> + Send;
}

/// Ours, of any store.
impl Filter for Arc<dyn BloomFilter> {
    async fn insert(&self, item: &[u8]) -> Result<bool, Failure> {
        Ok(BloomFilter::insert(&**self, item).await?)
    }

    async fn insert_many(&self, items: &[&[u8]]) -> Result<usize, Failure> {
        let new = BloomFilter::insert_many(&**self, items).await?;
        Ok(new.into_iter().filter(|new| *new).count())
    }

    async fn contains(&self, item: &[u8]) -> Result<bool, Failure> {
        Ok(BloomFilter::contains(&**self, item).await?)
    }
}
