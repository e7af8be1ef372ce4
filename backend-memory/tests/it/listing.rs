//! Listings of many names.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::{mutex, now};
use stanchion_core::clock::real;
use stanchion_core::{ListOptions, Mutex, Store};
use stanchion_memory::MemoryStore;

/// Returns how long it takes to find that no name begins with a text, in the best of several
/// attempts.
fn time_among(names: u32) -> Duration {
    let store = MemoryStore::new();
    let _handles: Vec<Arc<dyn Mutex>> =
        (0..names).map(|number| mutex(&store, &format!("common {number}"))).collect();
    let rare = ListOptions::new().prefix("common rare");
    let attempt = |_| {
        let begun = real();
        let page = now(store.list(rare.clone())).unwrap();
        let took = begun.elapsed();
        assert!(page.entries.is_empty() && page.next.is_none(), "{page:?}");
        took
    };
    (0..20).map(attempt).min().unwrap()
}

/// The lock of a part of the map is had for no longer, whatever there is beside what is looked for.
#[test]
fn c27_a_listing_of_a_rare_beginning_walks_over_no_other_names() {
    let (few, many) = (time_among(1_000), time_among(100_000));
    assert!(many < few * 20, "{few:?} among 1,000 names, {many:?} among 100,000");
}
