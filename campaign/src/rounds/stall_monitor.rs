//! Notices stalls of the machine itself, and threads of this process that get no processor.
//!
//! On a machine with more to do than processors, a thread that mostly sleeps is let in at once, and
//! one that works may wait for half a second. So a thread that only sleeps says little of the
//! others: the kernel tells for each how long it was ready to run and did not.

#![expect(clippy::disallowed_methods, reason = "it has a thread of its own, outside of any runtime")]

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::history::clock;

/// The monitor's sleep, and the delay in µs above which one counts as a stall: of its own wake-up,
/// or of a thread since the last one. A call needs several wake-ups, so that many small delays add
/// up to a large one.
const SLEEP: Duration = Duration::from_millis(10);
const LATE: u64 = 10_000;

/// A thread that sleeps, and tells when it woke up late, or when others had to wait.
#[derive(Debug)]
pub(crate) struct StallMonitor {
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Progress {
    ends: AtomicBool,
    /// The time up to which stalls are told, in µs of the machine's clock.
    told: AtomicU64,
}

impl StallMonitor {
    /// Starts the thread. `tell` receives the end of each stall and its length, in µs. If it fails,
    /// the thread ends.
    pub(crate) fn start(tell: impl FnMut(u64, u64) -> io::Result<()> + Send + 'static) -> Self {
        let progress = Arc::<Progress>::default();
        let shared = Arc::clone(&progress);
        let thread = thread::spawn(move || watch(&shared, tell));
        Self { progress, thread: Some(thread) }
    }

    /// Waits until every stall that began before that time is told.
    pub(crate) fn await_told(&self, at: u64) {
        let is_running = || self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        while self.progress.told.load(Ordering::Acquire) < at && is_running() {
            thread::sleep(SLEEP / 10);
        }
    }
}

fn watch(progress: &Progress, mut tell: impl FnMut(u64, u64) -> io::Result<()>) {
    let sleep = u64::try_from(SLEEP.as_micros()).unwrap_or(u64::MAX);
    let mut waits = Waits::default();
    let mut before = clock::now();
    while !progress.ends.load(Ordering::Relaxed) {
        thread::sleep(SLEEP);
        let late = clock::now().saturating_sub(before).saturating_sub(sleep);
        let length = late.max(waits.longest());
        let now = clock::now();
        if length > LATE && tell(now, length).is_err() {
            return;
        }
        progress.told.store(now, Ordering::Release);
        // Telling takes time as well.
        before = now;
    }
}

/// How long each thread of this process has waited for a processor so far, in ns.
#[derive(Debug, Default)]
struct Waits(HashMap<OsString, u64>);

impl Waits {
    /// Returns how long that thread waited which waited longest since the last call, in µs.
    fn longest(&mut self) -> u64 {
        let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let waited = |thread: DirEntry| {
            let stat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            Some((thread.file_name(), stat.split_whitespace().nth(1)?.parse().ok()?))
        };
        let now: HashMap<_, u64> = threads.filter_map(waited).collect();
        let since = |(thread, waited): (&OsString, &u64)| Some(waited.saturating_sub(*self.0.get(thread)?));
        let longest = now.iter().filter_map(since).max().unwrap_or_default();
        self.0 = now;
        longest / 1_000
    }
}

impl Drop for StallMonitor {
    fn drop(&mut self) {
        self.progress.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hint::spin_loop;

    use super::*;

    /// More threads than processors, each of which works on: every one of them has to wait.
    #[test]
    fn a_thread_that_waits_for_a_processor_is_noticed() {
        let processors = thread::available_parallelism().unwrap().get();
        let ends = AtomicBool::new(false);
        let mut waits = Waits::default();
        thread::scope(|scope| {
            for _ in 0..=processors {
                scope.spawn(|| {
                    while !ends.load(Ordering::Relaxed) {
                        spin_loop();
                    }
                });
            }
            let is_noticed = |_| {
                thread::sleep(SLEEP);
                waits.longest() > 0
            };
            let noticed = (0..3_000).any(is_noticed);
            ends.store(true, Ordering::Relaxed);
            assert!(noticed);
        });
    }
}
