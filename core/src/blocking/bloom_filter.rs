//! The Bloom filter of threads.

use super::Object;
use crate::Result;
use crate::bloom::Shape;

/// A named Bloom filter, as [`stanchion::BloomFilter`](crate::BloomFilter), for threads.
pub type BloomFilter = Object<dyn crate::BloomFilter>;

impl BloomFilter {
    /// Returns the shape: capacity, rate, and the sizes that follow from them.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.0.shape()
    }

    /// Inserts an item; `true` if it is new.
    ///
    /// # Errors
    /// As [`stanchion::BloomFilter::insert`](crate::BloomFilter::insert).
    pub fn insert(&self, item: &[u8]) -> Result<bool> {
        self.blocked("insert", self.0.insert(item))
    }

    /// Inserts items, and returns for each whether it is new.
    ///
    /// # Errors
    /// As [`stanchion::BloomFilter::insert_many`](crate::BloomFilter::insert_many).
    pub fn insert_many(&self, items: &[&[u8]]) -> Result<Vec<bool>> {
        self.blocked("insert_many", self.0.insert_many(items))
    }

    /// Returns whether the item was inserted, or is a false positive.
    ///
    /// # Errors
    /// As [`stanchion::BloomFilter::contains`](crate::BloomFilter::contains).
    pub fn contains(&self, item: &[u8]) -> Result<bool> {
        self.blocked("contains", self.0.contains(item))
    }

    /// Returns for each item whether it is contained.
    ///
    /// # Errors
    /// As [`stanchion::BloomFilter::contains_many`](crate::BloomFilter::contains_many).
    pub fn contains_many(&self, items: &[&[u8]]) -> Result<Vec<bool>> {
        self.blocked("contains_many", self.0.contains_many(items))
    }

    /// Returns an estimate of the number of items.
    ///
    /// # Errors
    /// As [`stanchion::BloomFilter::len_estimate`](crate::BloomFilter::len_estimate).
    pub fn len_estimate(&self) -> Result<u64> {
        self.blocked("len_estimate", self.0.len_estimate())
    }

    /// Returns the part of the bits that are set.
    ///
    /// # Errors
    /// As [`stanchion::BloomFilter::fill_ratio`](crate::BloomFilter::fill_ratio).
    pub fn fill_ratio(&self) -> Result<f64> {
        self.blocked("fill_ratio", self.0.fill_ratio())
    }

    /// Adds the items of another filter of the same store.
    ///
    /// # Errors
    /// As [`stanchion::BloomFilter::union_with`](crate::BloomFilter::union_with).
    pub fn union_with(&self, other: &str) -> Result<()> {
        self.blocked("union_with", self.0.union_with(other))
    }

    /// Ends items and parameters at once.
    ///
    /// # Errors
    /// As [`stanchion::BloomFilter::clear`](crate::BloomFilter::clear).
    pub fn clear(&self) -> Result<()> {
        self.blocked("clear", self.0.clear())
    }

    /// Returns the bits and parameters, for another store.
    ///
    /// # Errors
    /// As [`stanchion::BloomFilter::export`](crate::BloomFilter::export).
    pub fn export(&self) -> Result<Vec<u8>> {
        self.blocked("export", self.0.export())
    }

    /// Adds the items of an export.
    ///
    /// # Errors
    /// As [`stanchion::BloomFilter::import`](crate::BloomFilter::import).
    pub fn import(&self, exported: &[u8]) -> Result<()> {
        self.blocked("import", self.0.import(exported))
    }
}
