//! The clauses of the Bloom filter. Each store's own tests show rates with many probes, many
//! processes, lost replies and missing pages. Here is the behaviour that a caller of the trait sees
//! on every store.

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

/// Opens a filter with a new client, like another process.
async fn client(h: &dyn Harness, name: &str, options: BloomOptions) -> Arc<dyn BloomFilter> {
    h.store().await.bloom_filter(name, options).expect("a filter")
}

/// Returns options with so low a rate that a case hardly meets a false positive.
fn precise() -> BloomOptions {
    BloomOptions::new(10_000, 1e-6)
}

/// Returns `count` different items; another `of` gives other items.
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
