//! A name's state behind its lock.

use std::sync::PoisonError;

use crate::clock::{Moment, StoreClock};
use crate::kernel::{Permits, Turn};
use crate::names::Resident;
use crate::sync::{Mutex, Notify};

/// The state of a mutex, a semaphore or a wait group. The lock is held for nanoseconds, never across an await.
#[derive(Debug)]
pub(crate) struct Entry {
    clock: StoreClock,
    permits: Mutex<Permits>,
    /// Told when a hold ended otherwise than by its holder.
    pub(crate) lost: Notify,
}

impl Entry {
    pub(crate) fn new(clock: StoreClock, permits: Permits) -> Self {
        Self { clock, permits: Mutex::new(permits), lost: Notify::new() }
    }

    /// Reads the state.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&Permits) -> R) -> R {
        look(&self.permits.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the state, gives the lock back, and then tells those concerned.
    #[inline]
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Permits, &mut Turn<'_>) -> R) -> R {
        let mut turn = Turn::new(&self.clock);
        let result = change(&mut self.permits.lock().unwrap_or_else(PoisonError::into_inner), &mut turn);
        if turn.lost {
            self.lost.notify_waiters();
        }
        turn.end();
        result
    }
}

impl Resident for Entry {
    fn token_floor(&self) -> u64 {
        self.look(Permits::last_token)
    }

    fn kept_until(&self, at: Moment) -> Option<u64> {
        self.change(|permits, turn| {
            permits.reap(turn);
            permits.kept_until(at)
        })
    }
}
