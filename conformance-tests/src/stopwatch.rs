//! Time for verdicts: without the time in which the machine was stalled.
//!
//! A test that bounds a time must not fail because its machine was busy. Threads of this module
//! sleep again and again for a few milliseconds. If one wakes up late, the machine was stalled for
//! that long. The [`Stopwatch`] and [`timeout`] do not count that time. Nor do they count what such
//! delays add to what is measured: an answer of a store takes a chain of wake-ups, in this process
//! and in the store's, each of which is as late as theirs. Delays by the store itself count in full
//! on a machine with processor time to spare.

use std::collections::VecDeque;
use std::future::Future;
use std::num::NonZero;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// ε of the contract: the allowance for scheduling.
pub const EPSILON: Duration = Duration::from_millis(500);

/// Maximum number of monitoring threads.
const MAXIMUM_THREADS: usize = 16;
/// Number of stalls that are remembered one by one: more than can overlap with the next one.
const REMEMBERED: usize = 64;
/// Number of wake-ups, one after another, in what a test measures at once: a few requests, with
/// their tasks and threads in the test, in its server, and between them.
const CHAIN: u32 = 40;

/// How one monitoring thread sleeps, in µs.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Sleep interval.
    sleep: u64,
    /// Usual delay of a wake-up.
    usual: u64,
}

/// The pace of the first thread, which notices that the machine as a whole is busy. On an idle
/// machine it wakes up in time.
const FIRST: Pace = Pace { sleep: 5_000, usual: 500 };
/// The pace of the others: one processor alone may stand still, and a thread notices that only on
/// its own. Of many processors one is always late by a little, so only a longer delay counts as a
/// stall.
const OTHERS: Pace = Pace { sleep: 20_000, usual: 50_000 };

impl Pace {
    /// Returns since when a thread that began to sleep at `slept` is late, if it is late.
    fn late_since(self, slept: u64, now: u64) -> Option<u64> {
        let awake = slept + self.sleep;
        (now > awake + self.usual).then_some(awake)
    }
}

/// The monitoring threads' view of the machine.
#[derive(Debug)]
struct MachineMonitor {
    origin: Instant,
    seen: Mutex<Readings>,
}

/// Readings of the monitoring threads, in µs since the origin.
#[derive(Clone, Debug)]
struct Readings {
    /// The total time for which the machine was stalled.
    stood_still: u64,
    /// The beginnings and the ends of the last stalls, which do not overlap, in order.
    stalls: VecDeque<(u64, u64)>,
    /// The pace of each thread, and when it last began to sleep.
    threads: Vec<(Pace, u64)>,
    /// The wake-ups of the first thread.
    wake_ups: WakeUps,
}

/// A number of wake-ups, and by how much they were late in all, in µs.
#[derive(Clone, Copy, Debug, Default)]
struct WakeUps {
    count: u64,
    late: u64,
}

impl WakeUps {
    /// Returns the delay of a chain of wake-ups, each as late as these on average since `earlier`.
    fn delay_of_chain(self, earlier: Self) -> Duration {
        let (count, late) = (self.count - earlier.count, self.late - earlier.late);
        // In a shorter time than a wake-up takes, nothing was delayed that has not been counted as
        // a stall.
        Duration::from_micros(late.checked_div(count).unwrap_or(0)) * CHAIN
    }
}

impl Readings {
    fn of(threads: usize) -> Self {
        let pace = |number| if number == 0 { FIRST } else { OTHERS };
        let threads = (0..threads).map(|number| (pace(number), 0)).collect();
        Self { stood_still: 0, stalls: VecDeque::new(), threads, wake_ups: WakeUps::default() }
    }

    /// Adds a stall that ends later than all before. What overlaps with earlier ones counts once.
    fn add(&mut self, mut from: u64, until: u64) {
        while let Some(&(earlier, end)) = self.stalls.back()
            && end >= from
        {
            self.stalls.pop_back();
            self.stood_still -= end - earlier;
            from = from.min(earlier);
        }
        self.stood_still += until - from;
        self.stalls.push_back((from, until));
        if self.stalls.len() > REMEMBERED {
            self.stalls.pop_front();
        }
    }

    /// Adds the delay of a thread that wakes up now.
    fn woke_up(&mut self, thread: usize, now: u64) {
        let (pace, slept) = self.threads[thread];
        let late_since = pace.late_since(slept, now);
        if let Some(from) = late_since {
            self.add(from, now);
        }
        if thread == 0 {
            self.wake_ups.count += 1;
            self.wake_ups.late += late_since.map_or(0, |from| now - from);
        }
        self.threads[thread].1 = now;
    }

    /// Returns the time until `now` without the stalls.
    fn counted(&self, now: u64) -> u64 {
        // Threads may be late right now.
        let late = self.threads.iter().filter_map(|(pace, slept)| pace.late_since(*slept, now)).min();
        let stood_still = late.map_or(self.stood_still, |from| {
            let mut readings = self.clone();
            readings.add(from, now);
            readings.stood_still
        });
        now.saturating_sub(stood_still)
    }
}

impl MachineMonitor {
    fn get() -> &'static Self {
        static WATCH: OnceLock<MachineMonitor> = OnceLock::new();
        static THREADS: OnceLock<()> = OnceLock::new();
        let number = || thread::available_parallelism().map_or(1, NonZero::get).min(MAXIMUM_THREADS);
        let watch = WATCH.get_or_init(|| Self { origin: now(), seen: Mutex::new(Readings::of(number())) });
        THREADS.get_or_init(|| {
            let threads = watch.seen().threads.clone();
            for (number, (pace, _)) in threads.into_iter().enumerate() {
                let thread = thread::Builder::new().name("stopwatch".to_owned());
                thread.spawn(move || watch.watch(number, pace)).expect("a thread that watches the machine");
            }
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
    fn watch(&self, number: usize, pace: Pace) {
        self.seen().threads[number].1 = self.micros();
        loop {
            thread::sleep(Duration::from_micros(pace.sleep));
            let mut seen = self.seen();
            let now = self.micros();
            seen.woke_up(number, now);
        }
    }

    /// Returns the counted time since the origin, in µs, and the wake-ups since then.
    fn counted(&self) -> (u64, WakeUps) {
        let seen = self.seen();
        (seen.counted(self.micros()), seen.wake_ups)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "it measures the machine, whatever time the tested code lives in"
)]
fn now() -> Instant {
    Instant::now()
}

/// Measures real time, without the time in which the machine was stalled, and without the delay of
/// a chain of wake-ups on a busy machine. It does not follow a paused clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    start: u64,
    wake_ups: WakeUps,
}

impl Stopwatch {
    /// Starts a stopwatch.
    ///
    /// # Panics
    /// If the system refuses to start the monitoring thread, at the first call in a process.
    #[must_use]
    pub fn start() -> Self {
        let (start, wake_ups) = MachineMonitor::get().counted();
        Self { start, wake_ups }
    }

    /// Returns the counted time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.elapsed_in(1)
    }

    /// Returns the counted time since the start, in which so many things happened one after
    /// another.
    #[must_use]
    pub fn elapsed_in(&self, rounds: u32) -> Duration {
        let (now, wake_ups) = MachineMonitor::get().counted();
        let elapsed = Duration::from_micros(now.saturating_sub(self.start));
        elapsed.saturating_sub(wake_ups.delay_of_chain(self.wake_ups) * rounds)
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
        let awake = 1_000 + FIRST.sleep;
        assert_eq!(FIRST.late_since(1_000, awake + FIRST.usual), None);
        assert_eq!(FIRST.late_since(1_000, awake + 40_000), Some(awake));
        assert_eq!(OTHERS.late_since(1_000, awake + 40_000), None);
    }

    #[test]
    fn the_time_in_which_several_threads_are_late_counts_once() {
        let mut readings = Readings::of(2);
        readings.woke_up(0, 100_000);
        assert_eq!(
            readings.counted(100_000),
            5_000,
            "the second one is late since 20 ms, the first since 5 ms"
        );
        for now in [105_000, 110_000] {
            readings.woke_up(0, now);
        }
        readings.woke_up(1, 110_000);
        assert_eq!(readings.counted(110_000), 5_000, "the second one was late until 110 ms");
        for now in [115_000, 120_000, 125_000, 130_000] {
            readings.woke_up(0, now);
        }
        readings.woke_up(1, 130_000);
        assert_eq!(readings.counted(130_000), 25_000, "both wake up in time");
        assert_eq!(readings.counted(400_000), 30_000, "late since 135 ms and 150 ms");
        readings.woke_up(1, 400_000);
        readings.woke_up(0, 401_000);
        assert_eq!(readings.counted(401_000), 30_000, "the first one was late longer");
    }

    #[test]
    fn a_chain_is_as_late_as_its_wake_ups_on_average() {
        let mut readings = Readings::of(1);
        readings.woke_up(0, 5_200);
        let before = readings.wake_ups;
        assert_eq!(before.delay_of_chain(WakeUps::default()), Duration::ZERO, "in time");
        assert_eq!(before.delay_of_chain(before), Duration::ZERO, "nothing is known yet");
        for now in [14_200, 19_300, 32_300, 37_300] {
            readings.woke_up(0, now);
        }
        let late = Duration::from_micros((4_000 + 8_000) / 4);
        assert_eq!(readings.wake_ups.delay_of_chain(before), late * CHAIN);
        assert_eq!(readings.counted(37_300), 37_300 - 4_000 - 8_000);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a store that is slow")]
    fn what_others_delay_counts() {
        let watch = Stopwatch::start();
        let start = now();
        // Of a time in which the machine stood still, nothing counts.
        while watch.elapsed().is_zero() {
            thread::sleep(Duration::from_millis(300));
            let (counted, real) = (watch.elapsed(), start.elapsed());
            assert!(counted <= real + Duration::from_millis(6), "{counted:?} of {real:?}");
        }
    }
}
