//! The interface of sides with a Bloom filter.

use std::sync::Arc;

use stanchion_core::BloomFilter;

use crate::Failure;

/// A Bloom filter. A clone is the same filter.
pub trait Filter: Clone + Send + Sync + 'static {
    /// Inserts one item, and returns whether it was new.
    fn insert(&self, item: &[u8]) -> impl Future<Output = Result<bool, Failure>> + Send;

    /// Inserts many items in one call, and returns how many were new.
    fn insert_many(&self, items: &[&[u8]]) -> impl Future<Output = Result<usize, Failure>> + Send;

    /// Returns whether the filter contains an item.
    fn contains(&self, item: &[u8]) -> impl Future<Output = Result<bool, Failure>> + Send;
}

/// This library's filter, on any store.
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
