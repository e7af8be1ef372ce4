//! Timers without a runtime: one thread of the process wakes the tasks whose time has come.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use super::monotonic;

/// A time, and a number that tells equal times apart.
type Key = (Instant, u64);

/// All wake-ups of the process.
static TIMERS: Timers = Timers {
    queue: Mutex::new(Queue { wakers: BTreeMap::new(), last: 0, sleeps_until: None, thread_of: None }),
    changed: Condvar::new(),
};

struct Timers {
    queue: Mutex<Queue>,
    /// Notified when the thread has to wake up earlier.
    changed: Condvar,
}

struct Queue {
    wakers: BTreeMap<Key, Waker>,
    last: u64,
    /// Until when the thread sleeps; `None` is until it is notified.
    sleeps_until: Option<Instant>,
    /// The process that has started the thread: a forked child has none.
    thread_of: Option<u32>,
}

impl Timers {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread. It is started by the first wake-up and runs as long as the process.
    fn run(&self) {
        let mut queue = self.queue();
        loop {
            let now = monotonic();
            queue.sleeps_until = queue.wakers.first_key_value().map(|((first, _), _)| *first);
            match queue.wakers.first_entry() {
                Some(first) if first.key().0 <= now => {
                    let waker = first.remove();
                    drop(queue);
                    // Whatever it wakes is not this thread's: a panic of it must not end the others' times.
                    drop(catch_unwind(AssertUnwindSafe(|| waker.wake())));
                    queue = self.queue();
                }
                Some(first) => {
                    let left = first.key().0 - now;
                    let waited = self.changed.wait_timeout(queue, left);
                    queue = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// A wake-up at a time of the monotonic clock, withdrawn when dropped. It may come late, never early.
#[derive(Debug)]
pub struct WakeUp(Key);

impl WakeUp {
    /// Wakes the waker at that time.
    #[must_use]
    pub fn at(at: Instant, waker: Waker) -> Self {
        let mut queue = TIMERS.queue();
        queue.last += 1;
        let key = (at, queue.last);
        queue.wakers.insert(key, waker);
        // A thread that wakes up for a time that was withdrawn finds out by itself.
        let is_earlier = queue.sleeps_until.is_none_or(|until| at < until);
        if queue.thread_of != Some(std::process::id()) {
            let thread = std::thread::Builder::new().name("stanchion-timers".into());
            match thread.spawn(|| TIMERS.run()) {
                Ok(_) => queue.thread_of = Some(std::process::id()),
                Err(error) => tracing::error!(%error, "no thread for timers: what waits for a time waits on"),
            }
        }
        drop(queue);
        if is_earlier {
            TIMERS.changed.notify_one();
        }
        Self(key)
    }

    /// Returns the time.
    #[must_use]
    pub fn time(&self) -> Instant {
        self.0.0
    }

    /// Replaces the waker; `false` if the time has come.
    #[must_use]
    pub fn set_waker(&self, waker: &Waker) -> bool {
        let mut queue = TIMERS.queue();
        let Some(kept) = queue.wakers.get_mut(&self.0) else { return false };
        let old = (!kept.will_wake(waker)).then(|| std::mem::replace(kept, waker.clone()));
        drop(queue);
        // Only here: dropping a waker may drop a task.
        drop(old);
        true
    }
}

impl Drop for WakeUp {
    fn drop(&mut self) {
        let waker = TIMERS.queue().wakers.remove(&self.0);
        drop(waker);
    }
}
