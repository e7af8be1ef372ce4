//! What the author of a lease store writes: steps of one round trip each.
//!
//! Every step MUST be atomic, MUST be idempotent by ticket, MUST NOT wait for other callers, and MUST use the store's
//! clock only, read after any lock wait (C7). It takes a batch and answers each entry, in order. An error of the whole
//! step is `Unavailable` if the request was certainly not executed and `Unknown` if it may have been (C3); the engine
//! retries with the same tickets.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{FencingToken, Inspection, Kind, Name, OnMismatch, Result, Ticket, Ttl};

/// An object of a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: Name,
}

/// The identity of one store object of one process: whose waiters are live, and where their wake-ups go.
pub type ProcessId = Ticket;

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
    /// The limit as the caller knows it.
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

/// Ends a hold.
#[derive(Clone, Debug)]
pub struct Release {
    /// The object.
    pub object: Object,
    /// The hold.
    pub ticket: Ticket,
    /// Leave a tombstone for this long: a request of this ticket may still be under way.
    pub tombstone: Option<Ttl>,
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
}

/// Frees holds by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// All holds of the object.
    All,
    /// The hold of this ticket.
    One(Ticket),
}

/// The steps of mutexes and semaphores: a mutex is a semaphore of one, with the same tokens.
#[async_trait]
pub trait PermitSteps: Debug + Send + Sync {
    /// Grants, queues or refuses, first come, first served among the live (C16).
    ///
    /// # Errors
    /// As said for all steps.
    async fn acquire(&self, batch: &[Acquire]) -> Result<Vec<Acquired>>;

    /// Renews leases.
    ///
    /// # Errors
    /// As said for all steps.
    async fn renew(&self, batch: &[Renew]) -> Result<Vec<Kept>>;

    /// Releases holds and sends the wake-ups that follow.
    ///
    /// # Errors
    /// As said for all steps.
    async fn release(&self, batch: &[Release]) -> Result<Vec<Kept>>;

    /// Withdraws acquisitions and sends the wake-ups that follow.
    ///
    /// # Errors
    /// As said for all steps.
    async fn cancel(&self, batch: &[Cancel]) -> Result<()>;

    /// Tells the store that the process's waiters are live, and asks whose turn it is.
    ///
    /// # Errors
    /// As said for all steps.
    async fn poll(&self, batch: &[Object]) -> Result<Vec<Polled>>;

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

/// A source of wake-ups: hints only, which may be lost or doubled (C14).
#[async_trait]
pub trait WakeSource: Debug + Send + Sync {
    /// Waits, for a bounded time, for hints to waiters of this process. Returns without any when the time is over.
    ///
    /// # Errors
    /// `Unavailable` if the source has to be reached anew; the engine asks again after a pause.
    async fn next(&self) -> Result<Vec<Ticket>>;
}
