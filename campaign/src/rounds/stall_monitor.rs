//! Notices stalls of the machine itself.

#![expect(clippy::disallowed_methods, reason = "it has a thread of its own, outside of any runtime")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::history::{Recorder, What, clock};

/// The monitor's sleep, and the lateness in µs above which a wake-up counts as a stall. The contract leaves smaller
/// delays to scheduling anyway.
const SLEEP: Duration = Duration::from_millis(10);
const LATE: u64 = 100_000;

/// A thread that sleeps, and records when it woke up late.
#[derive(Debug)]
pub(super) struct StallMonitor {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StallMonitor {
    pub(super) fn start(recorder: &Recorder) -> Self {
        let (recorder, ends) = (recorder.task(), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&ends);
        let thread = thread::spawn(move || watch(&recorder, &ended));
        Self { ends, thread: Some(thread) }
    }
}

fn watch(recorder: &Recorder, ends: &AtomicBool) {
    let sleep = u64::try_from(SLEEP.as_micros()).unwrap_or(u64::MAX);
    let mut before = clock::now();
    while !ends.load(Ordering::Relaxed) {
        thread::sleep(SLEEP);
        let now = clock::now();
        let length = now.saturating_sub(before).saturating_sub(sleep);
        // Without this line the checkers are only stricter: the monitor may stop if the line cannot be written.
        if length > LATE && recorder.record_at(now, 0, None, What::StoodStill { length }).is_err() {
            return;
        }
        // Writing takes time as well.
        before = now;
    }
}

impl Drop for StallMonitor {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
