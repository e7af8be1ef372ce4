//! Time in which no other case of this process runs, for the case that measures what an idle machine does.

use std::future::Future;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stanchion_core::clock;

use crate::suite::CASE_LIMIT;

/// How often one that wants to be alone looks.
const LOOK: Duration = Duration::from_millis(20);
/// One that is alone for longer has got stuck, and was given up: it must not hold up all others.
const PATIENCE: Duration = Duration::from_secs(2 * CASE_LIMIT.as_secs());

#[derive(Debug)]
struct Room {
    /// Cases under way.
    running: usize,
    /// Those of them that stand still until they are alone.
    waiting: usize,
    /// Whether one of them is.
    alone: bool,
}

#[derive(Debug)]
pub(crate) struct Quiet {
    room: Mutex<Room>,
    changed: Condvar,
    patience: Duration,
}

/// The one of this process.
pub(crate) static QUIET: Quiet = Quiet::new(PATIENCE);

impl Quiet {
    const fn new(patience: Duration) -> Self {
        let room = Room { running: 0, waiting: 0, alone: false };
        Self { room: Mutex::new(room), changed: Condvar::new(), patience }
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a case, as soon as nobody is alone or wants to be.
    pub(crate) fn begin(&self) -> Running<'_> {
        let taken = |room: &mut Room| room.alone || room.waiting > 0;
        let free = self.changed.wait_timeout_while(self.room(), self.patience, taken);
        free.unwrap_or_else(PoisonError::into_inner).0.running += 1;
        Running(self)
    }

    /// Runs a part of a case while all other cases under way wait for the same, and none begins.
    pub(crate) async fn alone<T>(&self, part: impl Future<Output = T>) -> T {
        let waiting = Waiting::of(self);
        while !self.take() {
            clock::sleep(LOOK).await;
        }
        let alone = Alone(self);
        // Only now: from a gap between the two a case could begin.
        drop(waiting);
        let result = part.await;
        drop(alone);
        result
    }

    fn take(&self) -> bool {
        let mut room = self.room();
        let free = !room.alone && room.running <= room.waiting;
        room.alone |= free;
        free
    }
}

/// A case under way.
pub(crate) struct Running<'a>(&'a Quiet);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.room().running -= 1;
        self.0.changed.notify_all();
    }
}

struct Waiting<'a>(&'a Quiet);

impl<'a> Waiting<'a> {
    fn of(quiet: &'a Quiet) -> Self {
        quiet.room().waiting += 1;
        Self(quiet)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.room().waiting -= 1;
        self.0.changed.notify_all();
    }
}

struct Alone<'a>(&'a Quiet);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.room().alone = false;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a case has a thread and a runtime of its own")]
    fn who_wants_to_be_alone_is() {
        static ROOM: Quiet = Quiet::new(PATIENCE);
        static BUSY: AtomicUsize = AtomicUsize::new(0);
        static ALONE: AtomicUsize = AtomicUsize::new(0);
        let case = |number: u64| {
            move || {
                let _running = ROOM.begin();
                BUSY.fetch_add(1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(number % 7));
                BUSY.fetch_sub(1, Ordering::SeqCst);
                if number.is_multiple_of(5) {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                    runtime.expect("a runtime").block_on(ROOM.alone(async {
                        assert_eq!(ALONE.fetch_add(1, Ordering::SeqCst), 0);
                        for _ in 0..5 {
                            assert_eq!(BUSY.load(Ordering::SeqCst), 0);
                            clock::sleep(Duration::from_millis(1)).await;
                        }
                        ALONE.fetch_sub(1, Ordering::SeqCst);
                    }));
                }
            }
        };
        let cases: Vec<_> = (0..40).map(|number| thread::spawn(case(number))).collect();
        for case in cases {
            case.join().expect("no assertion fails");
        }
        assert_eq!(ROOM.room().running, 0);
    }

    #[test]
    fn one_that_got_stuck_holds_nobody_up_for_good() {
        static ROOM: Quiet = Quiet::new(Duration::from_millis(50));
        let stuck = Waiting::of(&ROOM);
        let running = ROOM.begin();
        assert_eq!(ROOM.room().running, 1);
        drop((running, stuck));
        assert_eq!(ROOM.room().running, 0);
    }
}
