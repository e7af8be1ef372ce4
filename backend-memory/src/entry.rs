//! The state of a name behind its lock.

use std::sync::PoisonError;

use crate::clock::{Moment, StoreClock};
use crate::kernel::{Permits, Transition};
use crate::names::Resident;
use crate::sync::{Mutex, Notify};

/// The state of a mutex, a semaphore or a wait group. The lock is held for nanoseconds, never across an await.
#[derive(Debug)]
pub(crate) struct Entry {
    clock: StoreClock,
    permits: Mutex<Permits>,
    /// Notified when a hold ended in another way than by its holder.
    pub(crate) lost: Notify,
}

impl Entry {
    pub(crate) fn new(clock: StoreClock, permits: Permits) -> Self {
        Self { clock, permits: Mutex::new(permits), lost: Notify::new() }
    }

    /// Reads the state.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Permits) -> R) -> R {
        read(&self.permits.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the state under its lock, and sends the wake-ups once the lock is free.
    #[inline]
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Permits, &mut Transition<'_>) -> R) -> R {
        let mut transition = Transition::new(&self.clock);
        let result =
            change(&mut self.permits.lock().unwrap_or_else(PoisonError::into_inner), &mut transition);
        if transition.lost {
            self.lost.notify_waiters();
        }
        transition.end();
        result
    }
}

impl Resident for Entry {
    fn token_floor(&self) -> u64 {
        self.read(Permits::last_token)
    }

    fn kept_until(&self, at: Moment) -> Option<u64> {
        self.change(|permits, transition| {
            permits.reap(transition);
            permits.kept_until(at)
        })
    }
}
