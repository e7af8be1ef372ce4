//! The semaphore.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Inspection, Permit, Result, Ticket};

/// A named counting semaphore.
///
/// # Guarantees
/// The live permits never exceed the limit, at any instant of store time (S1). A request for several is one decision,
/// all or nothing (S2), and is not starved by small ones behind it (S5): waiters are served first come, first served.
/// A dead holder's permits come back once, within its lease (S3). Each grant has a fencing token, as a mutex's.
///
/// # What is not guaranteed
/// After [`resize`](Self::resize) down, more permits than the limit may be out until enough came back (S6).
#[async_trait]
pub trait Semaphore: Debug + Send + Sync {
    /// The name.
    fn name(&self) -> &str;

    /// Takes one permit, waiting for as long as it takes.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    /// As [`acquire_many`](Self::acquire_many).
    async fn acquire(&self) -> Result<Permit> {
        self.acquire_many(1).await
    }

    /// Takes `count` permits together, waiting for as long as it takes; outages of the store are ridden out (C17).
    ///
    /// # Errors
    /// `InvalidArgument` at once if `count` is zero or over the limit, also when the limit shrinks below it while it
    /// waits (C20); `ConfigMismatch` if the store's limit differs and the options refuse that; `Unauthorized`,
    /// `UnsafeStore`, `Overloaded`, `Closed`.
    ///
    /// # Cancel safety
    /// Dropped at any await point it leaves nothing behind, neither a permit nor a place in the queue (C4).
    async fn acquire_many(&self, count: u32) -> Result<Permit>;

    /// Takes one permit if one is free and no live waiter queues.
    ///
    /// # Errors
    /// As [`try_acquire_many`](Self::try_acquire_many).
    ///
    /// # Cancel safety
    /// As [`acquire_many`](Self::acquire_many).
    async fn try_acquire(&self) -> Result<Option<Permit>> {
        self.try_acquire_many(1).await
    }

    /// Takes `count` permits if they are free and no live waiter queues; never waits for others.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many), and `Unavailable` or `Unknown` if the store does not answer within
    /// the request's time limit.
    ///
    /// # Cancel safety
    /// As [`acquire_many`](Self::acquire_many).
    async fn try_acquire_many(&self, count: u32) -> Result<Option<Permit>>;

    /// Takes `count` permits, waiting at most this long; zero is one attempt. `None` if the time ran out.
    ///
    /// # Errors
    /// As [`try_acquire_many`](Self::try_acquire_many); `Unknown` if the last word of the store was still awaited at
    /// the limit.
    ///
    /// # Cancel safety
    /// As [`acquire_many`](Self::acquire_many).
    async fn try_acquire_many_for(&self, count: u32, limit: Duration) -> Result<Option<Permit>>;

    /// Takes over a detached permit, with a new ticket, the same weight and the same fencing token (C24).
    ///
    /// # Errors
    /// `Lost` if it expired or another was first; `Unsupported`; as [`try_acquire_many`](Self::try_acquire_many).
    ///
    /// # Cancel safety
    /// A dropped call may have taken the permit over; then it is released.
    async fn attach(&self, ticket: Ticket) -> Result<Permit>;

    /// How many permits are free at this instant; 0 while more are out than the limit.
    ///
    /// # Errors
    /// As [`try_acquire_many`](Self::try_acquire_many).
    async fn available(&self) -> Result<u32>;

    /// Changes the limit for everybody (S6): up wakes waiters; down revokes nobody.
    ///
    /// # Errors
    /// `InvalidArgument` if zero or too large; as [`try_acquire_many`](Self::try_acquire_many).
    async fn resize(&self, permits: u32) -> Result<()>;

    /// Who holds permits and how many wait (C23).
    ///
    /// # Errors
    /// As [`try_acquire_many`](Self::try_acquire_many).
    async fn inspect(&self) -> Result<Inspection>;

    /// Frees the permits of that ticket; `true` if it held any. The holder is told (C9).
    ///
    /// # Errors
    /// As [`try_acquire_many`](Self::try_acquire_many).
    async fn force_release(&self, ticket: Ticket) -> Result<bool>;
}
