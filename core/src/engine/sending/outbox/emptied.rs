//! The blocking wait for an empty outbox, for threads that have no runtime.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Told whenever the outbox has become empty.
///
/// Made of the real locks also under the model checker, which knows no time: nothing waits here
/// there.
#[derive(Debug, Default)]
pub(super) struct Emptied {
    lock: Mutex<()>,
    changed: Condvar,
}

impl Emptied {
    /// Wakes all waiting threads. Call this after the outbox became empty.
    pub(super) fn notify(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Blocks until `is_empty` returns `true`, for `time` at most. Returns whether it did.
    pub(super) fn wait(&self, time: Duration, is_empty: impl Fn() -> bool) -> bool {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(guard, time, |()| !is_empty());
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_waits_until_it_is_empty_or_the_time_is_over() {
        let (emptied, empty) = (Arc::new(Emptied::default()), Arc::new(AtomicBool::new(false)));
        assert!(!emptied.wait(Duration::from_millis(1), || false));
        assert!(emptied.wait(Duration::ZERO, || true));
        let waiting = thread::spawn({
            let (emptied, empty) = (Arc::clone(&emptied), Arc::clone(&empty));
            move || emptied.wait(Duration::from_secs(60), || empty.load(Ordering::SeqCst))
        });
        emptied.notify();
        empty.store(true, Ordering::SeqCst);
        emptied.notify();
        assert!(waiting.join().unwrap());
    }
}
