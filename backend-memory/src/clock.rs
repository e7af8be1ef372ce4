//! The store's clock: the wall clock at the store's creation plus the monotonic time since.

use stanchion_core::clock::{self, Instant, micros};

/// Store time, which never goes back while the store lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreClock {
    origin: Instant,
    origin_micros: u64,
}

/// One reading of the store's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The monotonic time, for leases.
    pub(crate) now: Instant,
    /// Microseconds since 1970, for tokens and buckets.
    pub(crate) micros: u64,
}

impl StoreClock {
    pub(crate) fn start() -> Self {
        Self { origin: clock::now(), origin_micros: clock::wall_micros() }
    }

    pub(crate) fn read(&self) -> Moment {
        let now = clock::now();
        let elapsed = now.saturating_duration_since(self.origin);
        Moment { now, micros: self.origin_micros.saturating_add(micros(elapsed)) }
    }
}
