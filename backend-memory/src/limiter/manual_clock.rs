//! A clock that tests move.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::{self, Instant, micros};

use crate::sync::Broadcast;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A clock for limiters that moves only by calls, for tests of code that uses one.
///
/// Give it to [`MemoryStoreBuilder::clock`](crate::MemoryStoreBuilder::clock) and keep a clone:
/// clones are one clock. Buckets fill and reservations come due by it. Everything else of the store
/// (leases, timeouts of calls) uses the runtime's clock, which `tokio::time::pause` stops.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use stanchion_core::{LimiterOptions, Quota, Store};
/// use stanchion_memory::{ManualClock, MemoryStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> stanchion_core::Result<()> {
/// let clock = ManualClock::new();
/// let store = MemoryStore::builder().clock(clock.clone()).build();
/// let limiter = store.limiter("logins", LimiterOptions::new(Quota::per_second(1)))?;
/// assert!(limiter.allow().await?.allowed);
/// assert_eq!(limiter.allow().await?.retry_after, Some(Duration::from_secs(1)));
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.allow().await?.allowed);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ManualClock {
    inner: Arc<Inner>,
}

struct Inner {
    micros: AtomicU64,
    /// The monotonic time that stands for `START`; reservations use monotonic time.
    origin: Instant,
    moved: Broadcast,
}

/// The first reading, 2001-09-09: far enough from zero to go back.
const START: u64 = 1_000_000_000_000_000;

impl ManualClock {
    /// Creates a clock that stands still.
    #[must_use]
    pub fn new() -> Self {
        let inner = Inner { micros: AtomicU64::new(START), origin: clock::now(), moved: Broadcast::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Moves the clock forward by whole microseconds; reservations whose time has come are due.
    pub fn advance(&self, by: Duration) {
        self.set(|now| now.saturating_add(micros(by)));
    }

    /// Moves the clock back, as an operator's mistake would; no limiter gains tokens from it
    /// ([L4]).
    ///
    /// [L4]: stanchion_core::contract#l4
    pub fn set_back(&self, by: Duration) {
        self.set(|now| now.saturating_sub(micros(by)));
    }

    /// Returns the clock's time in microseconds.
    #[must_use]
    pub fn micros(&self) -> u64 {
        self.inner.micros.load(Ordering::SeqCst)
    }

    /// Returns the monotonic time that stands for a reading of this clock.
    pub(crate) fn instant(&self, micros: u64) -> Instant {
        let after = Duration::from_micros(micros.saturating_sub(START));
        let before = Duration::from_micros(START.saturating_sub(micros));
        let origin = self.inner.origin;
        origin.checked_add(after).and_then(|after| after.checked_sub(before)).unwrap_or(origin)
    }

    /// Returns the signal that is sent at every move.
    pub(crate) fn moved(&self) -> &Broadcast {
        &self.inner.moved
    }

    fn set(&self, next: impl Fn(u64) -> u64) {
        // It cannot fail: there is always a next time.
        let _ = self.inner.micros.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| Some(next(now)));
        self.inner.moved.notify_waiters();
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock").field("micros", &self.micros()).finish_non_exhaustive()
    }
}
