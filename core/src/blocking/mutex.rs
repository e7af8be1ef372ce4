//! The mutex of threads.

use std::time::Duration;

use super::{Lost, MutexGuard, Object};
use crate::{Detached, ErrorKind, FencingToken, Inspection, Result, Ticket};

/// A named mutex, as [`stanchion::Mutex`](crate::Mutex), for threads.
pub type Mutex = Object<dyn crate::Mutex>;

impl Mutex {
    /// Locks, waiting in the queue without a time limit.
    ///
    /// # Errors
    /// As [`stanchion::Mutex::lock`](crate::Mutex::lock).
    pub fn lock(&self) -> Result<MutexGuard> {
        self.blocked("lock", self.0.lock()).map(MutexGuard::from)
    }

    /// Locks if there is no holder and no live waiter; `None` otherwise.
    ///
    /// # Errors
    /// As [`stanchion::Mutex::try_lock`](crate::Mutex::try_lock).
    pub fn try_lock(&self) -> Result<Option<MutexGuard>> {
        self.blocked("try_lock", self.0.try_lock()).map(|guard| guard.map(MutexGuard::from))
    }

    /// Locks, waiting at most `timeout`; `None` if the time ran out. Zero is one attempt.
    ///
    /// # Errors
    /// As [`stanchion::Mutex::lock_for`](crate::Mutex::lock_for).
    pub fn lock_for(&self, timeout: Duration) -> Result<Option<MutexGuard>> {
        self.blocked("lock_for", self.0.lock_for(timeout)).map(|guard| guard.map(MutexGuard::from))
    }

    /// Locks, calls `work` with the fencing token and a [`Lost`], and unlocks. The result is
    /// returned if the mutex was held until `work` returned.
    ///
    /// # Errors
    /// As [`lock`](Self::lock) for the wait; `Lost` if the lock was lost before `work` returned,
    /// also if only the release shows it. If the store does not answer the release, the result is
    /// returned: the release stays queued.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> stanchion::Result<()> {
    /// let store = stanchion::blocking::connect("memory:")?;
    /// let mutex = store.mutex("report", Default::default())?;
    /// let pages = mutex.run(|token, lost| {
    ///     println!("writes with token {token}");
    ///     (1..=42).take_while(|_| !lost.is_lost()).count()
    /// })?;
    /// assert_eq!(pages, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T>(&self, work: impl FnOnce(FencingToken, Lost<'_>) -> T) -> Result<T> {
        let guard = self.lock()?;
        let done = guard.run(|lost| work(guard.fencing_token(), lost))?;
        match guard.release() {
            Err(error) if error.kind() == ErrorKind::Lost => Err(error),
            // The lock was held while the work was done; the release is under way.
            _ => Ok(done),
        }
    }

    /// Takes over a detached hold.
    ///
    /// # Errors
    /// As [`stanchion::Mutex::attach`](crate::Mutex::attach).
    pub fn attach(&self, detached: &Detached) -> Result<MutexGuard> {
        self.blocked("attach", self.0.attach(detached)).map(MutexGuard::from)
    }

    /// Returns the holder and the number of waiters.
    ///
    /// # Errors
    /// As [`stanchion::Mutex::inspect`](crate::Mutex::inspect).
    pub fn inspect(&self) -> Result<Inspection> {
        self.blocked("inspect", self.0.inspect())
    }

    /// Frees the mutex by force; `true` if it was held.
    ///
    /// # Errors
    /// As [`stanchion::Mutex::force_unlock`](crate::Mutex::force_unlock).
    pub fn force_unlock(&self) -> Result<bool> {
        self.blocked("force_unlock", self.0.force_unlock())
    }

    /// Frees the mutex by force if this is its holder's ticket; `true` if it was.
    ///
    /// # Errors
    /// As [`stanchion::Mutex::force_unlock_of`](crate::Mutex::force_unlock_of).
    pub fn force_unlock_of(&self, ticket: Ticket) -> Result<bool> {
        self.blocked("force_unlock_of", self.0.force_unlock_of(ticket))
    }
}
