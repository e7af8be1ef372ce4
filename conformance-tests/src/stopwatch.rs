//! Time for verdicts: without the time in which the machine was stalled.
//!
//! A test that bounds a time must not fail because its machine was busy. A thread of this module sleeps again and again
//! for a few milliseconds. If it wakes up late, the machine was stalled for that long. The [`Stopwatch`] and
//! [`timeout`] do not count that time. Delays by the store itself count in full.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// ε of the contract: the allowance for scheduling.
pub const EPSILON: Duration = Duration::from_millis(500);

/// Sleep interval of the monitoring thread, in µs.
const SLEEP: u64 = 5_000;
/// Usual delay of a wake-up on an idle machine, in µs.
const USUAL: u64 = 500;

/// The monitoring thread's view of the machine.
#[derive(Debug)]
struct MachineMonitor {
    origin: Instant,
    seen: Mutex<Readings>,
}

/// Readings of the monitoring thread, in µs since the origin.
#[derive(Clone, Copy, Debug)]
struct Readings {
    /// The total time for which the machine was stalled.
    stood_still: u64,
    /// When the thread last began to sleep.
    slept: u64,
}

impl MachineMonitor {
    fn get() -> &'static Self {
        static WATCH: OnceLock<MachineMonitor> = OnceLock::new();
        static THREAD: OnceLock<()> = OnceLock::new();
        let watch = WATCH
            .get_or_init(|| Self { origin: now(), seen: Mutex::new(Readings { stood_still: 0, slept: 0 }) });
        THREAD.get_or_init(|| {
            let thread = thread::Builder::new().name("stopwatch".to_owned());
            thread.spawn(|| watch.watch()).expect("a thread that watches the machine");
        });
        watch
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn seen(&self) -> MutexGuard<'_, Readings> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[expect(clippy::disallowed_methods, reason = "it has a thread of its own, outside of any runtime")]
    fn watch(&self) {
        self.seen().slept = self.micros();
        loop {
            thread::sleep(Duration::from_micros(SLEEP));
            let mut seen = self.seen();
            let now = self.micros();
            seen.stood_still += late(seen.slept, now);
            seen.slept = now;
        }
    }

    /// Returns the counted time since the origin, in µs.
    fn counted(&self) -> u64 {
        let seen = self.seen();
        let now = self.micros();
        // The thread itself may be late right now.
        now.saturating_sub(seen.stood_still + late(seen.slept, now))
    }
}

/// Returns how much longer than requested the thread slept.
fn late(before: u64, now: u64) -> u64 {
    let late = now.saturating_sub(before).saturating_sub(SLEEP);
    if late > USUAL { late } else { 0 }
}

#[expect(
    clippy::disallowed_methods,
    reason = "it measures the machine, whatever time the tested code lives in"
)]
fn now() -> Instant {
    Instant::now()
}

/// Measures real time, without the time in which the machine was stalled. It does not follow a paused clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    start: u64,
}

impl Stopwatch {
    /// Starts a stopwatch.
    ///
    /// # Panics
    /// If the system refuses to start the monitoring thread, at the first call in a process.
    #[must_use]
    pub fn start() -> Self {
        Self { start: MachineMonitor::get().counted() }
    }

    /// Returns the counted time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_micros(MachineMonitor::get().counted().saturating_sub(self.start))
    }
}

/// The error of [`timeout`]: the time limit passed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// Returns the output of a future that ends within `limit` of counted time.
///
/// # Errors
/// [`Elapsed`] if the future does not end in time; it is dropped.
///
/// # Panics
/// Outside of a runtime of tokio with a clock, and as [`Stopwatch::start`].
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
/// use stanchion_conformance::stopwatch::{Elapsed, timeout};
///
/// let second = Duration::from_secs(1);
/// assert_eq!(timeout(second, async { 7 }).await, Ok(7));
/// assert_eq!(timeout(second / 50, std::future::pending::<()>()).await, Err(Elapsed));
/// # }
/// ```
#[expect(clippy::disallowed_methods, reason = "a test waits in real time")]
pub async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    let watch = Stopwatch::start();
    let mut future = pin!(future);
    let mut left = limit;
    loop {
        tokio::select! {
            biased;
            output = &mut future => return Ok(output),
            () = tokio::time::sleep(left) => {}
        }
        left = limit.saturating_sub(watch.elapsed());
        if left.is_zero() {
            return Err(Elapsed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_wakes_up_late_tells_that_the_machine_stood_still() {
        assert_eq!(late(1_000, 1_000 + SLEEP + USUAL), 0);
        assert_eq!(late(1_000, 1_000 + SLEEP + 40_000), 40_000);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a store that is slow")]
    fn what_others_delay_counts() {
        let watch = Stopwatch::start();
        let start = now();
        thread::sleep(Duration::from_millis(300));
        let (counted, real) = (watch.elapsed(), start.elapsed());
        assert!(counted <= real + Duration::from_millis(6), "{counted:?} of {real:?}");
        assert!(!counted.is_zero());
    }
}
