//! Many names and namespaces of one store.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::fmt::Write as _;
use std::time::Duration;

use crate::common::{mutex, now, semaphore};
use rustix::time::{ClockId, clock_gettime};
use stanchion_core::{LimiterOptions, Quota, Store};
use stanchion_memory::MemoryStore;

/// The clock stands still, so that only what the store remembers makes the tokens grow.
#[tokio::test(start_paused = true)]
async fn m2_tokens_grow_in_a_namespace_that_was_left() {
    let store = MemoryStore::new();
    let draw = |namespace: &str| {
        let view = store.namespace(namespace).unwrap();
        now(mutex(&view, "a").lock()).unwrap().fencing_token()
    };
    let mut last = draw("left");
    for round in 0..100 {
        for other in 0..4 {
            drop(store.namespace(&format!("other-{round}-{other}")).unwrap());
        }
        let token = draw("left");
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}

/// Returns the processor time of this thread that it takes to open 200 namespaces beside others
/// that keep something.
fn time_beside(namespaces: u32) -> Duration {
    let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let store = MemoryStore::new();
    for number in 0..namespaces {
        let view = store.namespace(&format!("kept-{number}")).unwrap();
        drop(now(semaphore(&view, "a", 1).acquire()).unwrap());
    }
    let before = used();
    for number in 0..200 {
        drop(store.namespace(&format!("new-{number}")).unwrap());
    }
    used() - before
}

/// All others who open a namespace wait meanwhile.
#[test]
fn c27_a_new_namespace_costs_the_same_beside_many_others() {
    let (few, many) = (time_beside(10), time_beside(2_000));
    assert!(many < few * 10, "{few:?} beside 10, {many:?} beside 2,000");
}

/// A text that uses the store for each part that is written.
struct Reentrant<'a>(&'a MemoryStore, usize);

impl std::fmt::Write for Reentrant<'_> {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        self.1 += part.len();
        // One of these is in every part of the map.
        (0..100).for_each(|number| drop(mutex(self.0, &number.to_string())));
        Ok(())
    }
}

#[test]
fn c27_what_is_printed_of_a_handle_is_short_and_holds_no_lock() {
    let store = MemoryStore::new();
    let _others: Vec<_> = (0..1_000).map(|number| now(mutex(&store, &number.to_string()).lock())).collect();
    let limiter = store.limiter("one", LimiterOptions::new(Quota::per_second(1))).unwrap();
    let (one, guard) = (mutex(&store, "one"), now(mutex(&store, "a").lock()).unwrap());
    let mut text = Reentrant(&store, 0);
    write!(text, "{store:?} {one:?} {limiter:?} {guard:?}").unwrap();
    #[cfg(feature = "bloom")]
    {
        let filter = store.bloom_filter("one", stanchion_core::BloomOptions::new(10_000, 0.01)).unwrap();
        now(filter.insert(b"a")).unwrap();
        write!(text, "{filter:?}").unwrap();
    }
    assert!(text.1 < 2_000, "{} bytes", text.1);
}
