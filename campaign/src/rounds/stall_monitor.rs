//! Notices stalls of the machine itself.

#![expect(clippy::disallowed_methods, reason = "it has a thread of its own, outside of any runtime")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::history::clock;

/// The monitor's sleep, and the lateness in µs above which a wake-up counts as a stall. A call
/// needs several wake-ups, so that many small delays add up to a large one.
const SLEEP: Duration = Duration::from_millis(10);
const LATE: u64 = 10_000;

/// A thread that sleeps, and tells when it woke up late.
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
    let mut before = clock::now();
    while !progress.ends.load(Ordering::Relaxed) {
        thread::sleep(SLEEP);
        let now = clock::now();
        let length = now.saturating_sub(before).saturating_sub(sleep);
        if length > LATE && tell(now, length).is_err() {
            return;
        }
        progress.told.store(now, Ordering::Release);
        // Telling takes time as well.
        before = now;
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
