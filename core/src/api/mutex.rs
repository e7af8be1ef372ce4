//! The mutex.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Detached, Inspection, MutexGuard, Result, Ticket};

/// A named mutex: one holder at a time among all tasks and processes that share the store.
///
/// # Guarantees
/// From the grant until release, [deadline](MutexGuard::deadline) or loss, whichever is first, no
/// other holder believes that it holds the name ([M1]). Each grant's fencing token is larger than
/// every earlier one ([M2]), also after the store lost its data ([M3]). Waiters are served first
/// come, first served, by arrival at the store ([C16]), and are woken by the store ([C14]).
///
/// # What is not guaranteed
/// No lock stops a paused holder from acting late; only a resource that checks the fencing token
/// does. Faults that the contract calls unsafe (for example a store that loses acknowledged writes)
/// can break exclusion, never the order of tokens.
///
/// # Which one should you use?
/// A mutex for one holder, a [`Semaphore`](crate::Semaphore) for several, a
/// [`Limiter`](crate::Limiter) for a number *a second*. The mutex is not re-entrant ([M5]): see
/// [`MutexGuard::reenter`].
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> stanchion::Result<()> {
/// use stanchion::MutexOptions;
///
/// let store = stanchion::connect("memory:").await?;
/// let mutex = store.mutex("invoices/42", MutexOptions::default())?;
/// let guard = mutex.lock().await?;
/// // The future is dropped at the loss of the lock.
/// guard.run(async { println!("token {}", guard.fencing_token()) }).await?;
/// assert!(mutex.try_lock().await?.is_none(), "it is held");
/// guard.release().await
/// # }
/// ```
///
/// [M1]: crate::contract#m1
/// [M2]: crate::contract#m2
/// [M3]: crate::contract#m3
/// [C16]: crate::contract#c16
/// [C14]: crate::contract#c14
/// [M5]: crate::contract#m5
#[async_trait]
pub trait Mutex: Debug + Send + Sync {
    /// Returns the name.
    fn name(&self) -> &str;

    /// Locks, waiting in the queue without a time limit, also while the store is away ([C17]).
    ///
    /// # Errors
    /// Only errors that waiting cannot resolve ([C17]). After each of them nothing is held and
    /// nothing is queued.
    ///
    /// | kind | why | what to do |
    /// | --- | --- | --- |
    /// | `Closed` | the store object was closed, a step of it panicked, or this process is a forked child ([C1]) | connect again |
    /// | `Overloaded` | the queue has `max_waiters` waiters ([C26]) | shed the work, or call again later |
    /// | `Unauthorized` | the server refuses the credentials, or a right was taken away | have them mended; then call again |
    /// | `UnsafeStore` | the server of a new connection could break exclusion ([C22]) | mend its settings; then call again |
    /// | `ConfigMismatch` | the namespace has another layout or mutex mode at a new connection | use one version and one mode in all processes |
    /// | `InvalidArgument` | Postgres in session mode: the options ask for another TTL than the store's; [`Store::mutex`](crate::Store::mutex) returns it | open the mutex with other options |
    /// | `Unsupported` | the server lacks a command, or is too old | use another server |
    /// | `StateLost` | wait groups only ([W6]) | |
    ///
    /// `Unavailable`, `Unknown` and `Timeout` never end this call: it rides outages out.
    ///
    /// # Cancel safety
    /// Dropped at any await point, it leaves nothing behind: no hold and no place in the queue
    /// ([C4]). One that was begun and is not polled any more is passed over before a lease is over;
    /// polled again, it asks anew ([C6]).
    ///
    /// [C1]: crate::contract#c1
    /// [C17]: crate::contract#c17
    /// [C22]: crate::contract#c22
    /// [C26]: crate::contract#c26
    /// [C4]: crate::contract#c4
    /// [C6]: crate::contract#c6
    /// [W6]: crate::contract#w6
    async fn lock(&self) -> Result<MutexGuard>;

    /// Locks if there is no holder and no live waiter ([C16]); `None` otherwise. Never waits for
    /// other callers.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and, since this call does not ride outages out:
    ///
    /// | kind | why | what to do |
    /// | --- | --- | --- |
    /// | `Unavailable` | the store could not be reached within the request's time limit: nothing was done | call again |
    /// | `Unknown` | the request was sent, and no answer came in time: a lock that it may have taken is released again | call again |
    /// | `Overloaded` | also: the process has 10,000 calls whose outcome is not known yet ([C28]) | call again when the store is back |
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    ///
    /// [C16]: crate::contract#c16
    /// [C28]: crate::contract#c28
    async fn try_lock(&self) -> Result<Option<MutexGuard>>;

    /// Locks, waiting at most `timeout`; `None` if the time ran out. Zero is one attempt.
    ///
    /// # Errors
    /// As [`try_lock`](Self::try_lock); `Unknown` if the store's answer was still outstanding at
    /// the end of the time.
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use std::time::Duration;
    ///
    /// let mutex = store.mutex("report", Default::default())?;
    /// match mutex.lock_for(Duration::from_millis(50)).await? {
    ///     Some(guard) => guard.release().await?,
    ///     None => println!("another process makes the report"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    async fn lock_for(&self, timeout: Duration) -> Result<Option<MutexGuard>>;

    /// Takes over a detached hold, with a new ticket and the same fencing token ([C24]).
    ///
    /// The hold gets the lease and the renewal of this handle. A fence still knows the earlier
    /// ticket: call its `hand_over` before the first write. A call that ends with `Unknown` or is
    /// dropped has released the hold or left it detached for its lease, so that another call can
    /// find it `Lost`.
    ///
    /// # Errors
    /// `Lost` if the hold has expired, another caller was first, or the ticket is a guard's;
    /// `InvalidArgument` if it is of another object; `Unsupported`; as
    /// [`try_lock`](Self::try_lock).
    ///
    /// # Cancel safety
    /// A dropped call may have taken the hold over; then the hold is released.
    ///
    /// [C24]: crate::contract#c24
    async fn attach(&self, detached: &Detached) -> Result<MutexGuard>;

    /// Returns the holder and the number of waiters ([C23]).
    ///
    /// # Errors
    /// As [`try_lock`](Self::try_lock).
    ///
    /// # Cancel safety
    /// Dropping the call has no effect.
    ///
    /// [C23]: crate::contract#c23
    async fn inspect(&self) -> Result<Inspection>;

    /// Releases the name, whichever process holds it; `true` if there was a holder. The holder's
    /// guard is lost ([C9]), and its later calls affect no other holder ([M8]).
    ///
    /// The call leaves an event of `tracing` with the target `stanchion_core::observe::audit`: the
    /// name, the number of holds that it ended, and the label in the options of this handle.
    ///
    /// # Errors
    /// As [`try_lock`](Self::try_lock).
    ///
    /// # Cancel safety
    /// A dropped call may have released the name.
    ///
    /// [C9]: crate::contract#c9
    /// [M8]: crate::contract#m8
    async fn force_unlock(&self) -> Result<bool>;

    /// Releases the name as [`force_unlock`](Self::force_unlock), if this is the ticket of its
    /// holder; `true` if it was. A holder that came later keeps the name.
    ///
    /// Limitation: where a Postgres session of another process keeps the mutex, its ticket is known
    /// after a second only; until then the answer is `false`.
    ///
    /// # Errors
    /// As [`try_lock`](Self::try_lock).
    ///
    /// # Cancel safety
    /// A dropped call may have released the hold.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// let mutex = store.mutex("report", Default::default())?;
    /// let earlier = mutex.lock().await?.ticket();
    /// let guard = mutex.lock().await?;
    /// assert!(!mutex.force_unlock_of(earlier).await?);
    /// assert!(mutex.force_unlock_of(guard.ticket()).await?);
    /// # Ok(())
    /// # }
    /// ```
    async fn force_unlock_of(&self, ticket: Ticket) -> Result<bool>;
}
