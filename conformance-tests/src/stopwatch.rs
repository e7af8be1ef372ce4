//! Time as a verdict may count it: without the time in which the machine stood still.
//!
//! A test that bounds a time must not fail because its machine was busy. A thread of this module asks again and again to
//! sleep for a few milliseconds; by how much later it wakes up, the machine did nothing for a thread that wanted to run.
//! That time does not count, for the one [`Stopwatch`] and for [`timeout`]. What a store itself delays counts in full.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// ε of the contract: what it leaves to scheduling.
pub const EPSILON: Duration = Duration::from_millis(500);

/// How long the watching thread sleeps at a time, in µs.
const SLEEP: u64 = 5_000;
/// How much later than asked a thread wakes up on an idle machine, in µs.
const USUAL: u64 = 500;

/// The watching thread's view of the machine.
#[derive(Debug)]
struct Watch {
    origin: Instant,
    seen: Mutex<Seen>,
}

/// Times in µs since the origin.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// For how long the machine has stood still.
    stood_still: u64,
    /// When the thread went to sleep the last time.
    slept: u64,
}

impl Watch {
    fn get() -> &'static Self {
        static WATCH: OnceLock<Watch> = OnceLock::new();
        static THREAD: OnceLock<()> = OnceLock::new();
        let watch =
            WATCH.get_or_init(|| Self { origin: now(), seen: Mutex::new(Seen { stood_still: 0, slept: 0 }) });
        THREAD.get_or_init(|| {
            let thread = thread::Builder::new().name("stopwatch".to_owned());
            thread.spawn(|| watch.watch()).expect("a thread that watches the machine");
        });
        watch
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
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

    /// The time since the origin that counts, in µs.
    fn counted(&self) -> u64 {
        let seen = self.seen();
        let now = self.micros();
        // The thread may be late at this very moment.
        now.saturating_sub(seen.stood_still + late(seen.slept, now))
    }
}

/// By how much more than it asked for a thread slept.
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

/// Measures real time, without that in which the machine stood still. It does not follow a paused clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    start: u64,
}

impl Stopwatch {
    /// Starts one.
    ///
    /// # Panics
    /// If the system refuses the thread that watches the machine, at the first call in a process.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Watch::get().counted() }
    }

    /// The time that counts since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_micros(Watch::get().counted().saturating_sub(self.start))
    }
}

/// The time limit of [`timeout`] was over first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// The output of a future that ends within `limit` of the time that counts.
///
/// # Errors
/// [`Elapsed`] when it does not; the future is dropped.
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
