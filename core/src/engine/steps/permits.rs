//! The steps of everything that is held.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Answers, Object};
use crate::{FencingToken, Inspection, OnMismatch, Result, Ticket, Ttl};

/// How the limit that a caller brings is compared with the stored one (C20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitCheck {
    /// The handle's first operation.
    First(OnMismatch),
    /// Later ones: the stored one is followed; the brought one is used only where none is stored.
    Follow,
}

/// Asks for permits.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The object.
    pub object: Object,
    /// Names the acquisition; the same in every retry.
    pub ticket: Ticket,
    /// How many permits.
    pub weight: u32,
    /// The lease of the grant, and how long a silent waiter keeps its place.
    pub lease: Ttl,
    /// The limit as the caller knows it; [`NO_LIMIT`](super::NO_LIMIT) for a wait group without one.
    pub limit: u32,
    /// How it is compared.
    pub check: LimitCheck,
    /// Join the queue if it cannot be granted now. Without it a ticket that queues already leaves the queue.
    pub queue: bool,
    /// Bound of the queue, for a ticket that is not in it yet.
    pub max_waiters: Option<u32>,
    /// Shown by `inspect`.
    pub label: Option<Arc<str>>,
}

/// The answer to [`Acquire`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The ticket holds the permits. A ticket that held them already had its lease set anew and keeps its token.
    Granted {
        /// The token of the grant.
        token: FencingToken,
        /// The limit in force.
        limit: u32,
        /// Names the life of a wait group's record, as [`Looked::born`](super::Looked::born); 0 for other objects.
        born: u64,
    },
    /// The ticket queues, or, if it was not asked to, did not get the permits.
    Waiting {
        /// The limit in force.
        limit: u32,
        /// Names the life of the object's record, as [`Polled::born`].
        born: u64,
    },
    /// A cancel or release of this ticket came first: it is refused for good (C4).
    Cancelled,
    /// The stored limit differs and the check refuses that.
    Mismatch {
        /// The stored limit.
        stored: u32,
    },
    /// The weight is over the limit in force; the ticket is not queued.
    TooLarge {
        /// The limit in force.
        limit: u32,
    },
    /// The queue is at its bound.
    Overloaded,
}

/// Sets the lease of a hold anew.
#[derive(Clone, Debug)]
pub struct Renew {
    /// The object.
    pub object: Object,
    /// The hold.
    pub ticket: Ticket,
    /// The lease, counted from now.
    pub lease: Ttl,
}

/// How a member of a wait group ends (W4). Of other holds it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// By `done`.
    Finished,
    /// By its guard's drop, or by force.
    #[default]
    Abandoned,
}

/// Ends a hold.
#[derive(Clone, Debug)]
pub struct Release {
    /// The object.
    pub object: Object,
    /// The hold.
    pub ticket: Ticket,
    /// How it ends, for a member of a wait group.
    pub ending: Ending,
    /// Leave a tombstone for this long: a request of this ticket may still be under way.
    pub tombstone: Option<Ttl>,
    /// Names this call, where another may end the hold too: a retry that finds the tombstone of the same call is
    /// answered `Yes`, as the first. Needs a tombstone.
    pub call: Option<Ticket>,
}

/// Withdraws an acquisition, whatever became of it: a hold is released, a place in the queue given up, and where there
/// is neither, a tombstone is left that refuses the acquire which the cancel overtook (C4).
#[derive(Clone, Debug)]
pub struct Cancel {
    /// The object.
    pub object: Object,
    /// The acquisition.
    pub ticket: Ticket,
    /// How long the tombstone stays.
    pub lease: Ttl,
}

/// The answer to [`Renew`] and [`Release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The hold was there.
    Yes,
    /// It was gone: expired, freed, or taken over.
    No,
}

/// The answer to a poll, one for each object asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Polled {
    /// Waiters of the asking process whose turn it is.
    pub ready: Vec<Ticket>,
    /// When the next hold or the liveness of a waiter in front ends, by the store's clock, if one does.
    pub next: Option<Duration>,
    /// Names the life of the object's record: another value than before says that the queue was lost.
    pub born: u64,
}

/// A detached hold, taken over.
#[derive(Clone, Debug)]
pub struct Attach {
    /// The object.
    pub object: Object,
    /// The detached hold.
    pub from: Ticket,
    /// The ticket it gets. A second attach of the same pair is answered as the first.
    pub to: Ticket,
    /// Its lease from now on.
    pub lease: Ttl,
    /// Shown by `inspect`; without one, the hold keeps the label it has.
    pub label: Option<Arc<str>>,
}

/// What an attach took over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The token of the original grant.
    pub token: FencingToken,
    /// Its permits.
    pub weight: u32,
    /// As in [`Acquired::Granted`].
    pub born: u64,
}

/// Frees holds by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// All holds of the object.
    All,
    /// The hold of this ticket.
    One(Ticket),
}

/// The steps of mutexes and semaphores: a mutex is a semaphore of one, with the same tokens. The members of a wait
/// group are holds of weight 1, too, with no limit or one.
#[async_trait]
pub trait PermitSteps: Debug + Send + Sync {
    /// Steps on objects of one lane can leave in one request; a store that is one server has one lane.
    fn lane(&self, object: &Object) -> usize;

    /// Whether requests of that lane that are carried out at once wait for each other, as transactions do that lock the
    /// same rows. If so, acquires of several callers and releases of several leave in turn.
    fn excludes(&self, lane: usize) -> bool;

    /// Grants, queues or refuses, first come, first served among the live (C16).
    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired>;

    /// Renews leases.
    async fn renew(&self, batch: &[Renew]) -> Answers<Kept>;

    /// Releases holds and sends the wake-ups that follow.
    async fn release(&self, batch: &[Release]) -> Answers<Kept>;

    /// Withdraws acquisitions and sends the wake-ups that follow.
    async fn cancel(&self, batch: &[Cancel]) -> Answers<()>;

    /// Tells the store that the process's waiters are live, and asks whose turn it is.
    async fn poll(&self, batch: &[Object]) -> Answers<Polled>;

    /// Takes a detached hold over; `None` if it is gone.
    ///
    /// # Errors
    /// As said for all steps.
    async fn attach(&self, attach: &Attach) -> Result<Option<Attached>>;

    /// The state of an object.
    ///
    /// # Errors
    /// As said for all steps.
    async fn inspect(&self, object: &Object) -> Result<Inspection>;

    /// Sets the limit and wakes those who fit now.
    ///
    /// # Errors
    /// As said for all steps.
    async fn resize(&self, object: &Object, limit: u32) -> Result<()>;

    /// Frees holds by force and tells how many.
    ///
    /// # Errors
    /// As said for all steps.
    async fn force(&self, object: &Object, force: Force) -> Result<u32>;

    /// One round trip.
    ///
    /// # Errors
    /// As said for all steps.
    async fn ping(&self) -> Result<()>;
}
