//! The wait group.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Detached, Inspection, Member, Result, Ticket};

/// How the members of one generation ended ([W4]). The counts are of the generation that reached
/// zero last.
///
/// [W4]: crate::contract#w4
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// Members that called `done`.
    pub finished: u64,
    /// Members dropped without `done`.
    pub abandoned: u64,
    /// Members whose lease ended.
    pub expired: u64,
}

impl Outcome {
    /// Returns whether every member finished.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.abandoned == 0 && self.expired == 0
    }
}

/// A named wait group: callers add members, and other callers wait until there are none left.
///
/// # Guarantees
/// [`wait`](Self::wait) returns only if the count was zero at some instant of store time during the
/// call ([W1]). Adding and finishing are idempotent per ticket ([W2]). A member that died is
/// reported, not ignored ([W4]). The group is reusable: an `add` after zero opens the next
/// generation, which waiters of the earlier one do not wait for ([W5]). An absent record is not a
/// count of zero: a handle that has seen the group live returns `StateLost` when its record is gone
/// ([W6]).
///
/// # What is not guaranteed
/// A process that connects after the store lost the record cannot know that there was one.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> stanchion::Result<()> {
/// let store = stanchion::connect("memory:").await?;
/// let batch = store.wait_group("batch 7", Default::default())?;
/// let member = batch.add().await?;
/// member.done().await?;
/// assert!(batch.wait().await?.is_success());
/// # Ok(())
/// # }
/// ```
///
/// [W1]: crate::contract#w1
/// [W2]: crate::contract#w2
/// [W4]: crate::contract#w4
/// [W5]: crate::contract#w5
/// [W6]: crate::contract#w6
#[async_trait]
pub trait WaitGroup: Debug + Send + Sync {
    /// Returns the name.
    fn name(&self) -> &str;

    /// Adds a member; with a limit, waits while the group has as many live members as the limit
    /// ([W7]).
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock), which explains them; also `ConfigMismatch` if the
    /// store's limit differs and the options refuse that: agree on one, or choose another
    /// `on_mismatch`.
    ///
    /// # Cancel safety
    /// Dropped at any await point, it leaves nothing behind ([C4]). One that was begun and is not
    /// polled any more is passed over before a lease is over, and is no member; polled again, it
    /// asks anew ([C6]).
    ///
    /// [W7]: crate::contract#w7
    /// [C4]: crate::contract#c4
    /// [C6]: crate::contract#c6
    async fn add(&self) -> Result<Member>;

    /// Adds `count` members together, 1 to 10,000, all or nothing.
    ///
    /// # Errors
    /// As [`add`](Self::add); `InvalidArgument` if `count` is zero, above 10,000 or more than the
    /// limit.
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// let batch = store.wait_group("batch 7", stanchion::WaitGroupOptions::default())?;
    /// for member in batch.add_many(3).await? {
    ///     member.done().await?; // each may go to a task of its own
    /// }
    /// assert_eq!(batch.wait().await?.finished, 3);
    /// # Ok(())
    /// # }
    /// ```
    async fn add_many(&self, count: u32) -> Result<Vec<Member>>;

    /// Adds a member if the group has fewer live members than its limit and no call waits to add
    /// one; `None` otherwise. Never waits for other callers.
    ///
    /// # Errors
    /// As [`add_for`](Self::add_for).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    async fn try_add(&self) -> Result<Option<Member>>;

    /// Adds a member, waiting at most `timeout`; `None` if the time ran out. Zero is one attempt.
    ///
    /// # Errors
    /// As [`add`](Self::add), and, since this call does not ride outages out, `Unavailable`,
    /// `Unknown` and `Overloaded` as of [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    async fn add_for(&self, timeout: Duration) -> Result<Option<Member>>;

    /// Takes over a detached member, with a new ticket ([C24]).
    ///
    /// The hold gets the lease and the renewal of this handle. A fence still knows the earlier
    /// ticket: call its `hand_over` before the first write. A call that ends with `Unknown` or is
    /// dropped has released the hold or left it detached for its lease, so that another call can
    /// find it `Lost`.
    ///
    /// # Errors
    /// `Lost` if it has expired, is done, another caller was first, or the ticket is a guard's;
    /// `InvalidArgument` if it is of another object; `Unsupported`.
    ///
    /// # Cancel safety
    /// A dropped call may have taken the member over; then the member is abandoned.
    ///
    /// [C24]: crate::contract#c24
    async fn attach(&self, detached: &Detached) -> Result<Member>;

    /// Finishes the member of that ticket, from any process ([W8]).
    ///
    /// # Errors
    /// `Lost` if no live member has that ticket ([W2]).
    ///
    /// # Cancel safety
    /// A dropped call may have finished the member.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use std::time::Duration;
    ///
    /// let batch = store.wait_group("batch 7", stanchion::WaitGroupOptions::default())?;
    /// let detached = batch.add().await?.detach(stanchion::Ttl::new(Duration::from_secs(60))?).await?;
    /// batch.done(detached.ticket()).await?; // from any process
    /// assert_eq!(batch.count().await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [W8]: crate::contract#w8
    /// [W2]: crate::contract#w2
    async fn done(&self, ticket: Ticket) -> Result<()>;

    /// Waits until the count is zero, without a time limit; returns at once on an unused group
    /// ([W1]).
    ///
    /// # Errors
    /// `StateLost` if this handle has seen the group live and its record is gone ([W6]): find out
    /// by other means which work was done. Otherwise as [`Mutex::lock`](crate::Mutex::lock), which
    /// explains them, without `Overloaded` and `InvalidArgument`.
    ///
    /// # Cancel safety
    /// Dropping the call has no effect.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// let batch = store.wait_group("batch 7", stanchion::WaitGroupOptions::default())?;
    /// drop(batch.add().await?); // abandoned: `done` was not called
    /// let outcome = batch.wait().await?;
    /// assert_eq!((outcome.abandoned, outcome.is_success()), (1, false));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [W1]: crate::contract#w1
    /// [W6]: crate::contract#w6
    async fn wait(&self) -> Result<Outcome>;

    /// Waits until the count is zero, at most `timeout`; `None` if the time ran out. Zero looks
    /// once.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and `Unavailable` or `Unknown` if the store does not answer.
    ///
    /// # Cancel safety
    /// As [`wait`](Self::wait).
    async fn wait_for(&self, timeout: Duration) -> Result<Option<Outcome>>;

    /// Returns the number of live members.
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for).
    async fn count(&self) -> Result<u64>;

    /// Returns the members, and the number of calls that wait to add one ([C23]).
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for).
    ///
    /// [C23]: crate::contract#c23
    async fn inspect(&self) -> Result<Inspection>;
}
