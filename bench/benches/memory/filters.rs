//! The Bloom filter, compared with one that has no name.

use std::sync::Arc;
use std::time::Duration;

use fastbloom::AtomicBloomFilter;
use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::filter::Filter;
use stanchion_bench::load::{self, Call, Items, Pace};
use stanchion_bench::measure::{Figures, Measure, Role};
use stanchion_core::{BloomFilter, BloomOptions};

use crate::{Runtimes, store};

const OURS: &str = "stanchion";
const FASTBLOOM: &str = "fastbloom::AtomicBloomFilter";

const CAPACITY: usize = 1_000_000;
const RATE: f64 = 0.01;
const ROUNDS: usize = 31;
const SLICE: Duration = Duration::from_millis(100);
const BATCH: usize = 64;
const MANY: usize = 1_000;

/// `fastbloom`, used as its documentation says, with its default hasher.
#[derive(Clone)]
struct Fastbloom(Arc<AtomicBloomFilter>);

impl Filter for Fastbloom {
    async fn insert(&self, item: &[u8]) -> Result<bool, Failure> {
        Ok(!self.0.insert(item))
    }

    async fn insert_many(&self, items: &[&[u8]]) -> Result<usize, Failure> {
        Ok(items.iter().filter(|item| !self.0.insert(**item)).count())
    }

    async fn contains(&self, item: &[u8]) -> Result<bool, Failure> {
        Ok(self.0.contains(item))
    }
}

pub(crate) fn filters(bench: &mut Bench, runtimes: &Runtimes) -> Result<(), Failure> {
    let calls = [
        ("filter-insert", "Bloom filter, one insert a call", Call::Insert),
        ("filter-insert-many", "Bloom filter, 1,000 inserts a call", Call::InsertMany(MANY)),
        ("filter-contains", "Bloom filter, one question a call", Call::Contains),
    ];
    for (slug, title, call) in calls {
        let options = BloomOptions::new(u64::try_from(CAPACITY)?, RATE);
        let ours: Arc<dyn BloomFilter> = store().bloom_filter("seen", options)?;
        let fastbloom = AtomicBloomFilter::with_false_pos(RATE).expected_items(CAPACITY);
        let fastbloom = Fastbloom(Arc::new(fastbloom));
        let load = Load { runtimes, call, slice: bench.slice(SLICE) };
        let measure = Measure::new(
            slug,
            title,
            "A filter for a million items at 1 %, which fills with a million items of 16 bytes that come again and \
             again. One task. Times are means of 64 calls, or of one call of many. `fastbloom` has no name, no \
             store and no time to live, and hashes with SipHash.",
            Pace::columns("items"),
        )
        .side(OURS, Role::Ours, load.on(ours))
        .side(FASTBLOOM, Role::Peer, load.on(fastbloom));
        bench.run(measure, ROUNDS);
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Load<'a> {
    runtimes: &'a Runtimes,
    call: Call,
    slice: Duration,
}

impl<'a> Load<'a> {
    fn on<F: Filter>(self, filter: F) -> impl FnMut() -> Result<Figures, Failure> + use<'a, F> {
        let (items, batch) =
            (Items::new(CAPACITY), if matches!(self.call, Call::InsertMany(_)) { 1 } else { BATCH });
        move || {
            let seen = load::items(&filter, &items, self.call, self.slice, batch);
            Ok(self.runtimes.one.block_on(seen)?.figures())
        }
    }
}
