//! The one place where core and the backends read this process's clock and sleep.

use std::time::Duration;

pub use tokio::time::Instant;

/// Now, on the monotonic clock; inside a runtime whose time is paused, its time.
#[must_use]
#[inline]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// The wall clock in microseconds since 1970. Only a store whose clock is this process's may ask (C7).
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the memory store's clock starts from it")]
pub fn wall_micros() -> u64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}

/// Sleeps for a time.
#[expect(clippy::disallowed_methods, reason = "the one place that sleeps")]
pub fn sleep(duration: Duration) -> tokio::time::Sleep {
    tokio::time::sleep(duration)
}
