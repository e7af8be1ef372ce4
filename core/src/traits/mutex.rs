//! The mutex.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Inspection, MutexGuard, Result, Ticket};

/// A named mutex: one holder at a time among all tasks and processes that share the store.
///
/// # Guarantees
/// From grant until release, [deadline](MutexGuard::deadline) or loss, whichever is first, no other holder believes
/// it holds the name (M1). Each grant's fencing token is larger than every earlier one (M2), also after the store lost
/// its data (M3). Waiters are served first come, first served, by arrival at the store (C16), and are pushed (C14).
///
/// # What is not guaranteed
/// No lock stops a paused holder from acting late; only a resource that checks the fencing token does. Faults that the
/// contract calls unsafe (a store that loses acknowledged writes, for one) can break exclusion, never the order of
/// tokens.
///
/// # Which one should you use?
/// A mutex for one holder, a [`Semaphore`](crate::Semaphore) for several, a [`Limiter`](crate::Limiter) for so many
/// *a second*. The mutex is not re-entrant (M5): see [`MutexGuard::reenter`].
#[async_trait]
pub trait Mutex: Debug + Send + Sync {
    /// The name.
    fn name(&self) -> &str;

    /// Locks, waiting in the queue for as long as it takes; outages of the store are ridden out (C17).
    ///
    /// # Errors
    /// Only those that waiting cannot mend: `Unauthorized`, `ConfigMismatch`, `UnsafeStore`, `Overloaded`, `Closed`.
    ///
    /// # Cancel safety
    /// Dropped at any await point it leaves nothing behind, neither a hold nor a place in the queue (C4).
    async fn lock(&self) -> Result<MutexGuard>;

    /// Locks if nobody holds it and no live waiter queues (C16); never waits for others.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and `Unavailable` or `Unknown` if the store does not answer within the request's
    /// time limit.
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    async fn try_lock(&self) -> Result<Option<MutexGuard>>;

    /// Locks, waiting at most this long; zero is one attempt. `None` if the time ran out.
    ///
    /// # Errors
    /// As [`try_lock`](Self::try_lock); `Unknown` if the last word of the store was still awaited at the limit.
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    async fn try_lock_for(&self, limit: Duration) -> Result<Option<MutexGuard>>;

    /// Takes over a detached hold, with a new ticket and the same fencing token (C24).
    ///
    /// # Errors
    /// `Lost` if it expired or another was first; `Unsupported`; as [`try_lock`](Self::try_lock).
    ///
    /// # Cancel safety
    /// A dropped call may have taken the hold over; then it is released.
    async fn attach(&self, ticket: Ticket) -> Result<MutexGuard>;

    /// Who holds it and how many wait (C23).
    ///
    /// # Errors
    /// As [`try_lock`](Self::try_lock).
    async fn inspect(&self) -> Result<Inspection>;

    /// Frees the name, whoever holds it; `true` if somebody did. The holder is told (C9) and can harm nobody (M8).
    ///
    /// # Errors
    /// As [`try_lock`](Self::try_lock).
    async fn force_unlock(&self) -> Result<bool>;
}
