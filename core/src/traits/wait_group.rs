//! The wait group.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Inspection, Member, Result, Ticket};

/// How the members of one generation ended (W4). The sums are of the generation that came to zero last.
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
    /// Whether every member finished.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.abandoned == 0 && self.expired == 0
    }
}

/// A named wait group: callers add members and others wait until none is left.
///
/// # Guarantees
/// [`wait`](Self::wait) returns only if the count was zero at some instant of store time during the call (W1). Adding
/// and finishing are idempotent per ticket (W2). A member that died is reported, not passed over (W4). The group is
/// reusable: an `add` after zero opens the next generation, which waiters of the earlier one do not wait for (W5).
/// Absent is not zero: who has seen the group live gets `StateLost` when its record is gone (W6).
///
/// # What is not guaranteed
/// A process that connects after the store lost the record cannot know that there was one.
#[async_trait]
pub trait WaitGroup: Debug + Send + Sync {
    /// The name.
    fn name(&self) -> &str;

    /// Adds a member; with a limit, waits while that many are live (W7).
    ///
    /// # Errors
    /// `ConfigMismatch` if the store's limit differs and the options refuse that; `Unauthorized`, `UnsafeStore`,
    /// `Overloaded`, `Closed`.
    ///
    /// # Cancel safety
    /// Dropped at any await point it leaves nothing behind (C4).
    async fn add(&self) -> Result<Member>;

    /// Adds `count` members together, all or nothing.
    ///
    /// # Errors
    /// As [`add`](Self::add); `InvalidArgument` if `count` is zero or over the limit.
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    async fn add_many(&self, count: u32) -> Result<Vec<Member>>;

    /// Adds a member, waiting at most this long; zero is one attempt. `None` if the time ran out.
    ///
    /// # Errors
    /// As [`add`](Self::add), and `Unavailable` or `Unknown` if the store does not answer.
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    async fn try_add_for(&self, limit: Duration) -> Result<Option<Member>>;

    /// Takes over a detached member, with a new ticket (C24).
    ///
    /// # Errors
    /// `Lost` if it expired, is done, or another was first; `Unsupported`.
    ///
    /// # Cancel safety
    /// A dropped call may have taken the member over; then it is abandoned.
    async fn attach(&self, ticket: Ticket) -> Result<Member>;

    /// Finishes the member of that ticket, from any process (W8).
    ///
    /// # Errors
    /// `Lost` if the ticket names no live member (W2).
    ///
    /// # Cancel safety
    /// A dropped call may have finished the member.
    async fn done(&self, ticket: Ticket) -> Result<()>;

    /// Waits until the count is zero, for as long as it takes; returns at once on a group never used (W1).
    ///
    /// # Errors
    /// `StateLost` if this handle has seen the group live and its record is gone (W6); `Unauthorized`,
    /// `UnsafeStore`, `Closed`.
    ///
    /// # Cancel safety
    /// Safe: it changes nothing and may be called again.
    async fn wait(&self) -> Result<Outcome>;

    /// Waits at most this long; zero asks once. `None` if the time ran out.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and `Unavailable` or `Unknown` if the store does not answer.
    ///
    /// # Cancel safety
    /// As [`wait`](Self::wait).
    async fn wait_for(&self, limit: Duration) -> Result<Option<Outcome>>;

    /// How many members are live.
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for).
    async fn count(&self) -> Result<u64>;

    /// The members, and how many calls wait to add (C23).
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for).
    async fn inspect(&self) -> Result<Inspection>;
}
