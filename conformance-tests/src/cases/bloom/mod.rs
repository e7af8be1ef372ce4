//! The clauses of the Bloom filter. Rates with many probes, many processes, lost replies and missing pages are shown by
//! each store's own tests; here is what a caller of the trait sees of any.

mod insert;
mod layout;
mod life;
mod parameters;

pub(crate) use insert::*;
pub(crate) use layout::*;
pub(crate) use life::*;
pub(crate) use parameters::*;

use std::sync::Arc;

use stanchion_core::{BloomFilter, BloomOptions};

use crate::harness::Harness;

/// A filter of a client of its own, as of another process.
async fn client(h: &dyn Harness, name: &str, options: BloomOptions) -> Arc<dyn BloomFilter> {
    h.store().await.bloom_filter(name, options).expect("a filter")
}

/// A filter in which a case hardly finds what was never inserted.
fn precise() -> BloomOptions {
    BloomOptions::new(10_000, 1e-6)
}

/// Different items; those of another `of` are others.
fn items(of: &str, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!("{of} {number}").into_bytes()).collect()
}

fn slices(items: &[Vec<u8>]) -> Vec<&[u8]> {
    items.iter().map(Vec::as_slice).collect()
}

async fn insert(filter: &dyn BloomFilter, items: &[Vec<u8>]) -> Vec<bool> {
    filter.insert_many(&slices(items)).await.expect("inserted")
}

async fn contains(filter: &dyn BloomFilter, items: &[Vec<u8>]) -> Vec<bool> {
    filter.contains_many(&slices(items)).await.expect("an answer")
}

fn yes(answers: &[bool]) -> usize {
    answers.iter().filter(|answer| **answer).count()
}
