//! How many items a second one caller inserts into a filter on Redis: one a call, and in batches of 1,000.
//!
//! `cargo run --release -p stanchion-redis --features bloom --example bloom_batches [URL]`; without a URL on a private
//! server.

#![allow(clippy::disallowed_methods, reason = "a program owns its runtime, and measures real time")]

use std::time::{Duration, Instant};

use stanchion_conformance::servers;
use stanchion_core::{BloomFilter, BloomOptions, Result, Store, Ticket};
use stanchion_redis::RedisStore;

/// The time of each measurement.
const SLICE: Duration = Duration::from_secs(3);

/// Inserts items, so many a call, for the time of a slice; items a second.
async fn rate(filter: &dyn BloomFilter, batch: usize) -> Result<f64> {
    let (start, mut inserted) = (Instant::now(), 0_usize);
    while start.elapsed() < SLICE {
        let items: Vec<[u8; 16]> =
            (0..batch).map(|number| (inserted as u128 + number as u128).to_le_bytes()).collect();
        let items: Vec<&[u8]> = items.iter().map(<[u8; 16]>::as_slice).collect();
        filter.insert_many(&items).await?;
        inserted += batch;
    }
    Ok(inserted as f64 / start.elapsed().as_secs_f64())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let url = match std::env::args().nth(1) {
        Some(url) => url,
        None => servers::redis().expect("a redis-server").url().to_owned(),
    };
    let store = RedisStore::connect(&url).await?;
    println!("| rate | one a call | batches of 1,000 | ratio |");
    println!("| --- | --- | --- | --- |");
    for asked in [0.01, 1e-6] {
        let mut told = Vec::new();
        for batch in [1, 1_000] {
            let options = BloomOptions::new(1_000_000, asked).ttl(Duration::from_secs(600));
            let filter = store.bloom_filter(&format!("batches {}", Ticket::random()), options)?;
            told.push(rate(&*filter, batch).await?);
            filter.clear().await?;
        }
        println!("| {asked:e} | {:.0}/s | {:.0}/s | {:.0} |", told[0], told[1], told[1] / told[0]);
    }
    store.close().await
}
