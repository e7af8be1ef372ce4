//! A name's state behind its lock.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::clock::Moment;
use crate::kernel::{Permits, Signals};
use crate::names::Resident;

/// The state of a mutex, a semaphore or a wait group. The lock is held for nanoseconds, never across an await.
#[derive(Debug)]
pub(crate) struct Entry {
    permits: Mutex<Permits>,
    /// Told when a hold ended otherwise than by its holder.
    pub(crate) lost: Notify,
}

impl Entry {
    pub(crate) fn new(permits: Permits) -> Self {
        Self { permits: Mutex::new(permits), lost: Notify::new() }
    }

    /// Reads the state.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&Permits) -> R) -> R {
        look(&self.permits.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the state, gives the lock back, and then tells those concerned.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Permits, &mut Signals) -> R) -> R {
        let mut signals = Signals::default();
        let result = change(&mut self.permits.lock().unwrap_or_else(PoisonError::into_inner), &mut signals);
        if signals.lost {
            self.lost.notify_waiters();
        }
        signals.send();
        result
    }
}

impl Resident for Entry {
    fn token_floor(&self) -> u64 {
        self.look(Permits::last_token)
    }

    fn kept_until(&self, at: Moment) -> Option<u64> {
        self.change(|permits, signals| {
            permits.reap(at, signals);
            permits.kept_until(at)
        })
    }
}
