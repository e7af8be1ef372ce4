//! The clock of histories: microseconds of `CLOCK_MONOTONIC`, the same for all processes of one
//! machine.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use stanchion_core::clock::micros;

/// Returns the time on the machine's monotonic clock in µs, rounded down.
#[must_use]
pub fn now() -> u64 {
    micros(raw())
}

/// Converts an [`Instant`] to µs of the same clock; 0 before the machine's start. Exact to a few
/// µs.
///
/// `Instant` is `CLOCK_MONOTONIC` on Linux but does not expose its value, so both clocks are read
/// once, at nearly the same time.
#[must_use]
pub fn micros_of(instant: Instant) -> u64 {
    static ANCHOR: OnceLock<(Instant, Duration)> = OnceLock::new();
    let (anchor, reading) = *ANCHOR.get_or_init(anchor);
    let moved = match instant.checked_duration_since(anchor) {
        Some(later) => reading.saturating_add(later),
        None => reading.saturating_sub(anchor.duration_since(instant)),
    };
    micros(moved)
}

/// Returns the closest of several pairs of readings: the process may be stopped between the two
/// readings of one pair, but hardly in every pair.
#[expect(clippy::disallowed_methods, reason = "to learn how the two readings of one clock differ")]
fn anchor() -> (Instant, Duration) {
    let mut best: Option<(Duration, Instant, Duration)> = None;
    for _ in 0..64 {
        let (before, instant, after) = (raw(), Instant::now(), raw());
        let apart = after.saturating_sub(before);
        if best.is_none_or(|(least, ..)| apart < least) {
            best = Some((apart, instant, before));
        }
    }
    best.map_or_else(|| (Instant::now(), raw()), |(_, instant, reading)| (instant, reading))
}

fn raw() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}
