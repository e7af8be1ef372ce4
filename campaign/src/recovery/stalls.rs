//! The stalls of the machine while trials run. They are not the store's.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::rounds::stall_monitor::StallMonitor;

/// A stall: its end and its length, in µs of the machine's clock.
type Stall = (u64, u64);

/// The stalls since this value was made.
#[derive(Debug)]
pub(super) struct Stalls {
    monitor: StallMonitor,
    seen: Arc<Mutex<Vec<Stall>>>,
}

fn lock(seen: &Mutex<Vec<Stall>>) -> MutexGuard<'_, Vec<Stall>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stalls {
    /// Begins to watch the machine.
    pub(super) fn watch() -> Self {
        let seen = Arc::<Mutex<Vec<Stall>>>::default();
        let told = Arc::clone(&seen);
        let monitor = StallMonitor::start(move |end, length| {
            lock(&told).push((end, length));
            Ok(())
        });
        Self { monitor, seen }
    }

    /// Returns the part of the time between two readings of the machine's clock in which the
    /// machine ran, in µs.
    pub(super) fn took(&self, from: u64, to: u64) -> i64 {
        self.monitor.await_told(to);
        running(&lock(&self.seen), from, to)
    }
}

/// Returns the time between two readings of the machine's clock, in µs.
pub(super) fn between(from: u64, to: u64) -> i64 {
    to.checked_signed_diff(from).unwrap_or(i64::MAX)
}

fn running(stalls: &[Stall], from: u64, to: u64) -> i64 {
    let part = |(end, length): &Stall| {
        let (begin, end) = (end.saturating_sub(*length).max(from), (*end).min(to));
        between(begin, end).max(0)
    };
    stalls.iter().map(part).fold(between(from, to), i64::saturating_sub)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_between_two_readings_is_without_the_stalls_in_it() {
        let stalls = [(150, 100), (350, 50), (1_000, 400)];
        for (from, to, ran) in
            [(0, 40, 40), (0, 100, 50), (100, 200, 50), (0, 500, 350), (500, 700, 100), (700, 900, 0)]
        {
            assert_eq!(running(&stalls, from, to), ran, "{from} to {to}");
        }
        assert_eq!(running(&stalls, 400, 200), -200, "the second event came first");
    }
}
