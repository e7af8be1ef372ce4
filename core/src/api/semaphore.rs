//! The semaphore.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Detached, Inspection, Permit, Result, Ticket};

/// A named counting semaphore.
///
/// # Guarantees
/// The live permits never exceed the limit, at any instant of store time ([S1]). A request for
/// several is one decision, all or nothing ([S2]), and is not starved by small ones behind it
/// ([S5]): waiters are served first come, first served. A dead holder's permits come back once, at
/// the end of its lease ([S3]). Each grant has a fencing token, as that of a mutex.
///
/// # What is not guaranteed
/// After a [`resize`](Self::resize) to a lower limit, more permits than the limit may be held until
/// enough were released ([S6]).
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> stanchion::Result<()> {
/// use stanchion::SemaphoreOptions;
///
/// let store = stanchion::connect("memory:").await?;
/// let exports = store.semaphore("exports", SemaphoreOptions::new(3))?;
/// let permit = exports.acquire().await?;
/// permit.run(async { println!("one of three") }).await?;
/// permit.release().await
/// # }
/// ```
///
/// [S1]: crate::contract#s1
/// [S2]: crate::contract#s2
/// [S5]: crate::contract#s5
/// [S3]: crate::contract#s3
/// [S6]: crate::contract#s6
#[async_trait]
pub trait Semaphore: Debug + Send + Sync {
    /// Returns the name.
    fn name(&self) -> &str;

    /// Takes one permit, waiting without a time limit.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    /// As [`acquire_many`](Self::acquire_many).
    async fn acquire(&self) -> Result<Permit> {
        self.acquire_many(1).await
    }

    /// Takes `count` permits together, waiting without a time limit, also while the store is away
    /// ([C17]).
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock), which explains them; also `InvalidArgument` at once
    /// if `count` is zero or more than the limit, or later if the limit falls below `count` while
    /// the call waits ([C20]): ask for less; and `ConfigMismatch` if the store's limit differs and
    /// the options refuse that: agree on one, or choose another `on_mismatch`.
    ///
    /// # Cancel safety
    /// Dropped at any await point, it leaves nothing behind: no permit and no place in the queue
    /// ([C4]). One that was begun and is not polled any more is passed over before a lease is over;
    /// polled again, it asks anew ([C6]).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// let exports = store.semaphore("exports", stanchion::SemaphoreOptions::new(3))?;
    /// let permits = exports.acquire_many(2).await?; // both or none
    /// assert_eq!((permits.weight(), exports.available().await?), (2, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [C17]: crate::contract#c17
    /// [C20]: crate::contract#c20
    /// [C4]: crate::contract#c4
    /// [C6]: crate::contract#c6
    async fn acquire_many(&self, count: u32) -> Result<Permit>;

    /// Takes one permit if one is free and there is no live waiter; `None` otherwise.
    ///
    /// # Errors
    /// As [`try_acquire_many`](Self::try_acquire_many).
    ///
    /// # Cancel safety
    /// As [`acquire_many`](Self::acquire_many).
    async fn try_acquire(&self) -> Result<Option<Permit>> {
        self.try_acquire_many(1).await
    }

    /// Takes `count` permits if they are free and there is no live waiter; `None` otherwise. Never
    /// waits for other callers.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many), and, since this call does not ride outages out,
    /// `Unavailable`, `Unknown` and `Overloaded` as of [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancel safety
    /// As [`acquire_many`](Self::acquire_many).
    async fn try_acquire_many(&self, count: u32) -> Result<Option<Permit>>;

    /// Takes one permit, waiting at most `timeout`; `None` if the time ran out. Zero is one
    /// attempt.
    ///
    /// # Errors
    /// As [`acquire_many_for`](Self::acquire_many_for).
    ///
    /// # Cancel safety
    /// As [`acquire_many`](Self::acquire_many).
    async fn acquire_for(&self, timeout: Duration) -> Result<Option<Permit>> {
        self.acquire_many_for(1, timeout).await
    }

    /// Takes `count` permits, waiting at most `timeout`; `None` if the time ran out. Zero is one
    /// attempt.
    ///
    /// # Errors
    /// As [`try_acquire_many`](Self::try_acquire_many); `Unknown` if the store's answer was still
    /// outstanding at the end of the time.
    ///
    /// # Cancel safety
    /// As [`acquire_many`](Self::acquire_many).
    async fn acquire_many_for(&self, count: u32, timeout: Duration) -> Result<Option<Permit>>;

    /// Takes over a detached permit, with a new ticket, the same weight and the same fencing token
    /// ([C24]).
    ///
    /// The hold gets the lease and the renewal of this handle. A fence still knows the earlier
    /// ticket: call its `hand_over` before the first write. A call that ends with `Unknown` or is
    /// dropped has released the hold or left it detached for its lease, so that another call can
    /// find it `Lost`.
    ///
    /// # Errors
    /// `Lost` if it has expired, another caller was first, or the ticket is a guard's;
    /// `InvalidArgument` if it is of another object; `Unsupported`; as
    /// [`try_acquire_many`](Self::try_acquire_many).
    ///
    /// # Cancel safety
    /// A dropped call may have taken the permit over; then the permit is released.
    ///
    /// [C24]: crate::contract#c24
    async fn attach(&self, detached: &Detached) -> Result<Permit>;

    /// Returns the number of free permits at this instant; 0 while more are held than the limit.
    /// Neither compares nor stores the limit ([C20]): the answer is that of the stored limit or, if
    /// none is stored, of this handle's.
    ///
    /// # Errors
    /// As [`try_acquire_many`](Self::try_acquire_many), without `ConfigMismatch`.
    ///
    /// [C20]: crate::contract#c20
    async fn available(&self) -> Result<u32>;

    /// Changes the limit for all processes ([S6]): a higher limit wakes waiters; a lower one takes
    /// no permit away.
    ///
    /// # Errors
    /// `InvalidArgument` if zero or too large; as [`try_acquire_many`](Self::try_acquire_many).
    ///
    /// [S6]: crate::contract#s6
    async fn resize(&self, permits: u32) -> Result<()>;

    /// Returns the holders and the number of waiters ([C23]).
    ///
    /// # Errors
    /// As [`try_acquire_many`](Self::try_acquire_many).
    ///
    /// [C23]: crate::contract#c23
    async fn inspect(&self) -> Result<Inspection>;

    /// Releases the permits of that ticket; `true` if it held any. The holder's guard is lost
    /// ([C9]).
    ///
    /// The call leaves an event of `tracing` with the target `stanchion_core::observe::audit`: the
    /// name, the number of holds that it ended, and the label in the options of this handle.
    ///
    /// # Errors
    /// As [`try_acquire_many`](Self::try_acquire_many).
    ///
    /// [C9]: crate::contract#c9
    async fn force_release(&self, ticket: Ticket) -> Result<bool>;
}
