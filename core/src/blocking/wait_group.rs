//! The wait group of threads.

use std::time::Duration;

use super::{Member, Object};
use crate::{Detached, Inspection, Outcome, Result, Ticket};

/// A named wait group, as [`stanchion::WaitGroup`](crate::WaitGroup), for threads.
///
/// # Examples
/// ```
/// # fn main() -> stanchion::Result<()> {
/// let store = stanchion::blocking::connect("memory:")?;
/// let batch = store.wait_group("batch 7", Default::default())?;
/// std::thread::scope(|scope| {
///     for member in batch.add_many(3)? {
///         scope.spawn(move || member.done());
///     }
///     assert_eq!(batch.wait()?.finished, 3);
///     Ok(())
/// })
/// # }
/// ```
pub type WaitGroup = Object<dyn crate::WaitGroup>;

impl WaitGroup {
    /// Adds a member; with a limit, waits while the group has as many live members as the limit.
    ///
    /// # Errors
    /// As [`stanchion::WaitGroup::add`](crate::WaitGroup::add).
    pub fn add(&self) -> Result<Member> {
        self.blocked("add", self.0.add()).map(Member::from)
    }

    /// Adds a member if there is room and no call waits to add one; `None` otherwise.
    ///
    /// # Errors
    /// As [`stanchion::WaitGroup::try_add`](crate::WaitGroup::try_add).
    pub fn try_add(&self) -> Result<Option<Member>> {
        self.blocked("try_add", self.0.try_add()).map(|member| member.map(Member::from))
    }

    /// Adds `count` members together, 1 to 10,000, all or nothing.
    ///
    /// # Errors
    /// As [`stanchion::WaitGroup::add_many`](crate::WaitGroup::add_many).
    pub fn add_many(&self, count: u32) -> Result<Vec<Member>> {
        self.blocked("add_many", self.0.add_many(count))
            .map(|members| members.into_iter().map(Member::from).collect())
    }

    /// Adds a member, waiting at most `timeout`; `None` if the time ran out. Zero is one attempt.
    ///
    /// # Errors
    /// As [`stanchion::WaitGroup::add_for`](crate::WaitGroup::add_for).
    pub fn add_for(&self, timeout: Duration) -> Result<Option<Member>> {
        self.blocked("add_for", self.0.add_for(timeout)).map(|member| member.map(Member::from))
    }

    /// Takes over a detached member.
    ///
    /// # Errors
    /// As [`stanchion::WaitGroup::attach`](crate::WaitGroup::attach).
    pub fn attach(&self, detached: &Detached) -> Result<Member> {
        self.blocked("attach", self.0.attach(detached)).map(Member::from)
    }

    /// Finishes the member of that ticket, from any process.
    ///
    /// # Errors
    /// As [`stanchion::WaitGroup::done`](crate::WaitGroup::done).
    pub fn done(&self, ticket: Ticket) -> Result<()> {
        self.blocked("done", self.0.done(ticket))
    }

    /// Waits until the count is zero, without a time limit.
    ///
    /// # Errors
    /// As [`stanchion::WaitGroup::wait`](crate::WaitGroup::wait).
    pub fn wait(&self) -> Result<Outcome> {
        self.blocked("wait", self.0.wait())
    }

    /// Waits until the count is zero, at most `timeout`; `None` if the time ran out. Zero looks
    /// once.
    ///
    /// # Errors
    /// As [`stanchion::WaitGroup::wait_for`](crate::WaitGroup::wait_for).
    pub fn wait_for(&self, timeout: Duration) -> Result<Option<Outcome>> {
        self.blocked("wait_for", self.0.wait_for(timeout))
    }

    /// Returns the number of live members.
    ///
    /// # Errors
    /// As [`stanchion::WaitGroup::count`](crate::WaitGroup::count).
    pub fn count(&self) -> Result<u64> {
        self.blocked("count", self.0.count())
    }

    /// Returns the members, and the number of calls that wait to add one.
    ///
    /// # Errors
    /// As [`stanchion::WaitGroup::inspect`](crate::WaitGroup::inspect).
    pub fn inspect(&self) -> Result<Inspection> {
        self.blocked("inspect", self.0.inspect())
    }
}
