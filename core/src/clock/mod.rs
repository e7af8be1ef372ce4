//! The one place where core and the backends read this process's clock and sleep.

mod alarm;
mod timers;
mod waits;

use std::time::Duration;

pub use tokio::time::Instant;

pub use self::alarm::Alarm;
pub use self::timers::WakeUp;
pub use self::waits::{Late, sleep, sleep_until, timeout, timeout_at, wait_until};

/// Returns the monotonic time; inside a runtime with a paused clock, that clock's time.
#[must_use]
#[inline]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
pub fn now() -> Instant {
    Instant::now()
}

#[inline]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
pub(crate) fn monotonic() -> std::time::Instant {
    std::time::Instant::now()
}

/// Returns the monotonic time, also inside a runtime with a paused clock.
#[must_use]
pub fn real() -> Instant {
    Instant::from_std(monotonic())
}

/// Returns whether the clock of the runtime that calls, if there is one, is the monotonic clock: it
/// was never paused.
#[must_use]
pub fn is_real() -> bool {
    let before = monotonic();
    let now = now().into_std();
    before <= now && now <= monotonic()
}

/// Returns the wall clock, in µs since 1970. Only a store whose clock is that of this process may
/// use it ([C7]).
///
/// [C7]: crate::contract#c7
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the memory store's clock starts from it")]
pub fn wall_micros() -> u64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    micros(since_epoch)
}

/// Returns the whole microseconds of a duration, rounded down; the largest number if there are
/// more.
#[must_use]
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
