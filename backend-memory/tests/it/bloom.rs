//! Bloom filters of the memory store: against a plain set, with threads, and when they end.

#![cfg(feature = "bloom")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::common::now;
use proptest::prelude::*;
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_core::clock::real;
use stanchion_core::{BloomFilter, BloomOptions, ErrorKind, Result, Store};
use stanchion_memory::MemoryStore;
use tokio::runtime::Builder;

const TTL: Duration = Duration::from_secs(10);

fn filter(store: &MemoryStore, name: &str, options: &BloomOptions) -> Arc<dyn BloomFilter> {
    store.bloom_filter(name, options.clone()).unwrap()
}

fn kind_of<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Names, each with a handle or two.
const NAMES: [&str; 2] = ["a", "b"];

#[derive(Clone, Debug)]
enum Step {
    Insert { handle: usize, items: Vec<u16> },
    Contains { handle: usize, items: Vec<u16> },
    Clear { handle: usize },
    Unite { handle: usize },
    Copy { from: usize, to: usize },
    Pass { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (handle, items) = (0..4_usize, prop::collection::vec(0..300_u16, 0..20));
    prop_oneof![
        6 => (handle.clone(), items.clone()).prop_map(|(handle, items)| Step::Insert { handle, items }),
        4 => (handle.clone(), items).prop_map(|(handle, items)| Step::Contains { handle, items }),
        1 => handle.clone().prop_map(|handle| Step::Clear { handle }),
        1 => handle.clone().prop_map(|handle| Step::Unite { handle }),
        1 => (handle.clone(), handle).prop_map(|(from, to)| Step::Copy { from, to }),
        1 => (1..8_u64).prop_map(|seconds| Step::Pass { seconds }),
    ]
}

/// The positions that are set, and when they end; for each name.
#[derive(Debug, Default)]
struct Plain {
    filters: HashMap<&'static str, (u64, BTreeSet<u64>)>,
    now: u64,
}

impl Plain {
    fn bits(&mut self, name: &'static str) -> &mut BTreeSet<u64> {
        let ends = self.now + TTL.as_secs();
        &mut self.filters.entry(name).or_insert_with(|| (ends, BTreeSet::new())).1
    }

    fn contains(&self, name: &str, mut positions: impl Iterator<Item = u64>) -> bool {
        self.filters.get(name).is_some_and(|(_, bits)| positions.all(|position| bits.contains(&position)))
    }

    fn add(&mut self, from: &'static str, to: &'static str) {
        let bits = self.filters.get(from).map(|(_, bits)| bits.clone()).unwrap_or_default();
        if !bits.is_empty() {
            self.bits(to).extend(bits);
        }
    }
}

async fn compare(steps: Vec<Step>) {
    let store = MemoryStore::new();
    // So few bits that items often share them.
    let options = BloomOptions::new(40, 0.05).ttl(TTL);
    let handles: Vec<_> =
        (0..4).map(|handle| (NAMES[handle / 2], filter(&store, NAMES[handle / 2], &options))).collect();
    let mut plain = Plain::default();
    for step in steps {
        match step {
            Step::Insert { handle, items } => {
                let (name, filter) = &handles[handle];
                let items: Vec<_> = items.iter().map(|item| item.to_le_bytes()).collect();
                let slices: Vec<&[u8]> = items.iter().map(<[u8; 2]>::as_slice).collect();
                let told = filter.insert_many(&slices).await.unwrap();
                let bits = plain.bits(name);
                let insert =
                    |item| filter.shape().positions(item).fold(false, |new, bit| bits.insert(bit) | new);
                assert_eq!(told, slices.into_iter().map(insert).collect::<Vec<_>>());
            }
            Step::Contains { handle, items } => {
                let (name, filter) = &handles[handle];
                for item in items.iter().map(|item| item.to_le_bytes()) {
                    let expected = plain.contains(name, filter.shape().positions(&item));
                    assert_eq!(filter.contains(&item).await.unwrap(), expected);
                }
            }
            Step::Clear { handle } => {
                handles[handle].1.clear().await.unwrap();
                plain.filters.remove(handles[handle].0);
            }
            Step::Unite { handle } => {
                let (name, filter) = &handles[handle];
                let other = if *name == NAMES[0] { NAMES[1] } else { NAMES[0] };
                filter.union_with(other).await.unwrap();
                plain.add(other, name);
            }
            Step::Copy { from, to } => {
                let exported = handles[from].1.export().await.unwrap();
                handles[to].1.import(&exported).await.unwrap();
                plain.add(handles[from].0, handles[to].0);
            }
            Step::Pass { seconds } => {
                tokio::time::advance(Duration::from_secs(seconds)).await;
                plain.now += seconds;
                plain.filters.retain(|_, (ends, _)| *ends > plain.now);
            }
        }
        for (name, filter) in &handles {
            let set = plain.filters.get(name).map_or(0, |(_, bits)| bits.len());
            let expected = filter.shape().fill_ratio(set as u64);
            assert!((filter.fill_ratio().await.unwrap() - expected).abs() < 1e-9, "{name}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn b1_b3_b5_a_filter_is_a_set_of_positions(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(compare(steps));
    }
}

/// B3: threads insert the same items at once, one by one and in batches.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b3_threads_share_the_news() {
    const ITEMS: u32 = 20_000;
    let store = MemoryStore::new();
    let options = BloomOptions::new(u64::from(ITEMS), 1e-6);
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let filter = filter(&store.client(), "a", &options);
            tokio::spawn(async move {
                let mut told = Vec::new();
                for item in 0..ITEMS {
                    told.push(filter.insert(&item.to_le_bytes()).await.unwrap());
                    if item.is_multiple_of(64) {
                        tokio::task::yield_now().await;
                    }
                }
                told
            })
        })
        .collect();
    let mut times = vec![0; ITEMS as usize];
    for task in tasks {
        for (times, new) in times.iter_mut().zip(task.await.unwrap()) {
            *times += u32::from(new);
        }
    }
    assert!(times.iter().all(|times| *times <= 1), "new twice");
    assert!(times.iter().filter(|times| **times == 0).count() <= 2, "never new");
}

/// B1, B5: clearing and inserting at once; what was inserted after the last clear is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b5_clears_meet_inserts() {
    let store = MemoryStore::new();
    let options = BloomOptions::new(1_000, 1e-6);
    let clearing = {
        let filter = filter(&store, "a", &options);
        tokio::spawn(async move {
            for _ in 0..500 {
                filter.clear().await.unwrap();
                tokio::task::yield_now().await;
            }
        })
    };
    let one = filter(&store, "a", &options);
    for item in 0..2_000_u32 {
        one.insert(&item.to_le_bytes()).await.unwrap();
    }
    clearing.await.unwrap();
    one.insert(b"after").await.unwrap();
    assert!(one.contains(b"after").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn c25_b5_what_is_over_leaves_nothing() {
    let store = MemoryStore::new();
    let options = BloomOptions::new(1_000, 0.01);
    filter(&store, "asked", &options).contains(b"a").await.unwrap();
    assert!(store.is_empty(), "asking makes nothing");
    filter(&store, "ends", &options.clone().ttl(TTL)).insert(b"a").await.unwrap();
    filter(&store, "cleared", &options).insert(b"a").await.unwrap();
    filter(&store, "cleared", &options).clear().await.unwrap();
    filter(&store, "stays", &options).insert(b"a").await.unwrap();
    assert_eq!(store.len(), 3);
    tokio::time::advance(TTL).await;
    assert_eq!(store.len(), 2);
    tokio::time::advance(Duration::from_secs(24 * 60 * 60)).await;
    assert_eq!(store.len(), 1);
    let stays = filter(&store, "stays", &options);
    assert!(stays.contains(b"a").await.unwrap());
    store.simulate_data_loss();
    assert_eq!(kind_of(stays.contains(b"a").await), Some(ErrorKind::StateLost));
    drop(stays);
    assert!(store.is_empty());
}

/// A first call of a handle waits for those who look at the filter, and all later calls wait for
/// that one.
#[test]
fn c27_an_export_of_a_large_filter_keeps_nobody_waiting() {
    let store = MemoryStore::new();
    let options = BloomOptions::new(40_000_000, 0.01);
    let open = || filter(&store, "a", &options);
    let (one, exporter) = (open(), open());
    for item in 0..3_000_u32 {
        assert!(now(one.insert(&item.to_le_bytes())).is_ok());
    }
    let exporting = std::thread::spawn(move || now(exporter.export()).unwrap().len());
    let (mut longest, mut calls) = (Duration::ZERO, 0);
    let begun = real();
    while !exporting.is_finished() {
        let asked = Stopwatch::start();
        assert!(now(open().insert(b"first")).is_ok());
        longest = longest.max(asked.elapsed());
        calls += 1;
    }
    let whole = begun.elapsed();
    assert_eq!(exporting.join().unwrap() as u64, 40 + one.shape().bytes());
    // One that stands in its way waits for it, so that there are few; a thread that gets no
    // processor for a moment waits long, and makes many.
    assert!(
        longest < whole / 4 || calls >= 8,
        "one of {calls} calls waited {longest:?} of the {whole:?} of an export"
    );
}

#[tokio::test(start_paused = true)]
async fn an_export_and_a_count_see_nothing_of_a_filter_that_has_ended() {
    let store = MemoryStore::new();
    let one = filter(&store, "a", &BloomOptions::new(1_000, 0.01).ttl(TTL));
    assert!(one.insert(b"a").await.unwrap());
    let full = one.export().await.unwrap();
    tokio::time::advance(TTL).await;
    assert_eq!((one.len_estimate().await.unwrap(), one.export().await.unwrap().len()), (0, full.len()));
    one.import(&full).await.unwrap();
    assert!(one.contains(b"a").await.unwrap() && one.export().await.unwrap() == full);
}
