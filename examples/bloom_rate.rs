//! Measures the false positives of a full Bloom filter against the configured rate, and compares
//! the answers of other stores.
//!
//! ```text
//! cargo run --release --features bloom --example bloom_rate
//! cargo run --release --features bloom,redis,postgres --example bloom_rate redis://127.0.0.1/ postgres://localhost/
//! ```
//!
//! Filters of 100,000 items are filled and queried for 10,000,000 other items. Each store that a
//! URL names gets the same items, and is queried for 100,000 others; its answers and its exported
//! bytes must equal those of the memory store, bit for bit. The program fails if a rate is more
//! than 10 % off, an inserted item is not contained, or a store differs.
#![expect(clippy::disallowed_methods, reason = "a program owns its runtime; the library does not")]

use std::env;
use std::process::ExitCode;
use std::sync::Arc;

use stanchion::{BloomFilter, BloomOptions, Result, Store, Ticket};

const CAPACITY: u64 = 100_000;
const PROBES: u64 = 10_000_000;
/// Number of other items for which the other stores are queried.
const COMPARED: u64 = 100_000;
const BATCH: usize = 1_000;

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let memory = stanchion::connect("memory:").await?;
    let urls: Vec<String> = env::args().skip(1).collect();
    let mut well = true;
    println!(
        "| store | rate asked for | found | of probes | off by | not contained | same bits | same answers |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for rate in [0.01, 0.0001] {
        let reference = full(memory.as_ref(), rate).await?;
        let missing = CAPACITY - count(reference.as_ref(), 0..CAPACITY).await?;
        let found = count(reference.as_ref(), CAPACITY..CAPACITY + PROBES).await?;
        let off = as_f64(found) / (as_f64(PROBES) * rate) - 1.0;
        println!("| memory | {rate} | {found} | {PROBES} | {:+.1} % | {missing} | | |", off * 100.0);
        well &= missing == 0 && off.abs() <= 0.1;
        for url in &urls {
            let store = stanchion::connect(url).await?;
            let filter = full(store.as_ref(), rate).await?;
            let same_bits = filter.export().await? == reference.export().await?;
            let (mut found, mut missing, mut same) = (0, 0, true);
            for number in (0..CAPACITY + COMPARED).step_by(BATCH) {
                let answers = ask(filter.as_ref(), number).await?;
                same &= answers == ask(reference.as_ref(), number).await?;
                let contained = answers.iter().filter(|answer| **answer).count();
                if number < CAPACITY { missing += BATCH - contained } else { found += contained }
            }
            let store_name = store.capabilities().store;
            let verdict = |same| if same { "yes" } else { "NO" };
            let (bits, answers) = (verdict(same_bits), verdict(same));
            println!("| {store_name} | {rate} | {found} | {COMPARED} | | {missing} | {bits} | {answers} |");
            well &= same_bits && same && missing == 0;
            filter.clear().await?;
            store.close().await?;
        }
    }
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns a filter with a name of its own, filled to its capacity.
async fn full(store: &dyn Store, rate: f64) -> Result<Arc<dyn BloomFilter>> {
    let filter =
        store.bloom_filter(&format!("rate {}", Ticket::random()), BloomOptions::new(CAPACITY, rate))?;
    for number in (0..CAPACITY).step_by(BATCH) {
        let items = items(number);
        filter.insert_many(&items.each_ref().map(|item| item.as_slice())).await?;
    }
    Ok(filter)
}

/// Counts how many of these items are contained.
async fn count(filter: &dyn BloomFilter, numbers: std::ops::Range<u64>) -> Result<u64> {
    let mut contained = 0;
    for number in numbers.step_by(BATCH) {
        contained += ask(filter, number).await?.iter().map(|answer| u64::from(*answer)).sum::<u64>();
    }
    Ok(contained)
}

/// Queries a batch of items from this number on.
async fn ask(filter: &dyn BloomFilter, number: u64) -> Result<Vec<bool>> {
    filter.contains_many(&items(number).each_ref().map(|item| item.as_slice())).await
}

fn items(first: u64) -> [[u8; 8]; BATCH] {
    std::array::from_fn(|index| (first + index as u64).to_le_bytes())
}

#[expect(clippy::cast_precision_loss, reason = "below 2^53")]
fn as_f64(number: u64) -> f64 {
    number as f64
}
