//! Guards of threads.

use std::fmt;
use std::time::{Duration, Instant};

use super::Lost;
use super::waiting::wait;
use crate::api::guard::{GuardKind, OfMutex, OfSemaphore, OfWaitGroup};
use crate::{Detached, Error, FencingToken, GrantId, Result, Ticket};

/// The guard of a locked mutex.
pub type MutexGuard = Guard<OfMutex>;

/// One or more permits of a semaphore, held together.
pub type Permit = Guard<OfSemaphore>;

/// A member of a wait group. Call [`done`](Self::done) when the work is done: a dropped member
/// counts as abandoned.
pub type Member = Guard<OfWaitGroup>;

/// The guard of a hold: [`MutexGuard`], [`Permit`] and [`Member`] are this type. It is
/// [`stanchion::Guard`](crate::Guard), whose documentation applies, for threads;
/// [`into_async`](Self::into_async) and `From` change one into the other.
///
/// # Drop
/// As [`stanchion::Guard`](crate::Guard#drop): queues the release, on any thread.
#[must_use = "dropping a guard gives up what it holds"]
pub struct Guard<K: GuardKind>(crate::Guard<K>);

impl<K: GuardKind> Guard<K> {
    /// Returns the name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Returns the ticket of this acquisition.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.0.ticket()
    }

    /// Returns the fencing token of this grant.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.0.fencing_token()
    }

    /// Returns whether the hold is live, without I/O.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// Returns the time from which on this hold is not live any more, as last renewed; `None` for a
    /// hold without a lease.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    /// Returns a view of the loss of the hold, which can be copied.
    #[must_use]
    pub fn lost(&self) -> Lost<'_> {
        Lost(self.0.hold())
    }

    /// Calls `work`, and returns its result if the hold was live until it returned. A thread cannot
    /// be stopped: `work` looks at [`Lost`] between its steps.
    ///
    /// # Errors
    /// `Lost` if the hold was lost before `work` returned; it does not run if it was lost before.
    pub fn run<T>(&self, work: impl FnOnce(Lost<'_>) -> T) -> Result<T> {
        let lost = || self.0.hold().context("run", Error::lost());
        if !self.is_held() {
            return Err(lost());
        }
        let done = work(self.lost());
        if self.is_held() { Ok(done) } else { Err(lost()) }
    }

    /// Ends the hold now, and reports whether that succeeded.
    ///
    /// # Errors
    /// As [`stanchion::Guard::release`](crate::Guard::release); `Unsupported` inside of a polled
    /// task, where the release is queued.
    pub fn release(self) -> Result<()> {
        let in_operation = self.in_operation("release");
        wait(self.0.release()).map_err(in_operation)
    }

    /// Ends renewal, sets the lease a last time, and returns the hold without a guard.
    ///
    /// # Errors
    /// As [`stanchion::Guard::detach`](crate::Guard::detach); `Unsupported` inside of a polled
    /// task, where the hold is released.
    pub fn detach(self, lease: impl Into<Duration> + Send) -> Result<Detached> {
        let in_operation = self.in_operation("detach");
        wait(self.0.detach(lease)).map_err(in_operation)
    }

    /// Adds the operation to the error of a call that could not wait.
    fn in_operation(&self, operation: &'static str) -> impl FnOnce(Error) -> Error + use<K> {
        let backend = self.0.hold().backend();
        move |error| if error.operation().is_some() { error } else { backend.context(operation, error) }
    }

    /// Returns the same guard for tasks.
    pub fn into_async(self) -> crate::Guard<K> {
        self.0
    }
}

impl MutexGuard {
    /// Returns another guard of the same hold. The last guard that is dropped or released frees the
    /// mutex.
    pub fn reenter(&self) -> Self {
        Self(self.0.reenter())
    }
}

impl Permit {
    /// Returns the number of permits.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.0.weight()
    }
}

impl Member {
    /// Reports the work as finished: the same as [`release`](Self::release).
    ///
    /// # Errors
    /// As [`release`](Self::release); `Unsupported` inside of a polled task, where the member is
    /// abandoned.
    pub fn done(self) -> Result<()> {
        self.release()
    }
}

impl<K: GuardKind> From<crate::Guard<K>> for Guard<K> {
    fn from(guard: crate::Guard<K>) -> Self {
        Self(guard)
    }
}

impl<K: GuardKind> From<&Guard<K>> for GrantId {
    fn from(guard: &Guard<K>) -> Self {
        Self::from(&guard.0)
    }
}

impl<K: GuardKind> fmt::Debug for Guard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
