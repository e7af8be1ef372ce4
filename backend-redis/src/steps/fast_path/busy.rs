//! Which names have waiters, as far as is known.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stanchion_core::clock::{Instant, now};
use stanchion_core::spi::Object;
use xxhash_rust::xxh3::xxh3_64;

/// How long a name counts as busy after the fast path refused it; the scripts keep it a hash for as
/// long, `QUIET` in `forms.lua`.
const QUIET: Duration = Duration::from_secs(1);
const SLOTS: usize = 4096;

/// Which names are busy, as far as is known: for them the fast path would be one request more. A
/// hint only: two names can share a slot.
#[derive(Debug)]
pub(crate) struct Busy {
    start: Instant,
    /// Until when, in ms since `start`.
    slots: Vec<AtomicU64>,
}

impl Busy {
    pub(crate) fn new() -> Self {
        Self { start: now(), slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }

    fn slot(&self, object: &Object) -> &AtomicU64 {
        // The remainder is below the number of slots.
        let index =
            usize::try_from(xxh3_64(object.name.as_str().as_bytes()) % SLOTS as u64).unwrap_or_default();
        &self.slots[index]
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn is_busy(&self, object: &Object) -> bool {
        let until = self.slot(object).load(Ordering::Relaxed);
        until > 0 && self.elapsed() < until
    }

    pub(in crate::steps) fn note(&self, object: &Object) {
        let until = self.elapsed() + u64::try_from(QUIET.as_millis()).unwrap_or(u64::MAX);
        self.slot(object).store(until, Ordering::Relaxed);
    }
}
