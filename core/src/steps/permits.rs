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
    /// The lease of the grant, counted from the moment of the step; and how long a silent waiter keeps its place.
    pub lease: Ttl,
    /// The limit as the caller knows it, in force where none is stored; 1 for a mutex,
    /// [`NO_LIMIT`](super::NO_LIMIT) for a wait group without one.
    pub limit: u32,
    /// How it is compared. A ticket that holds or queues was compared before, and MUST NOT be again.
    pub check: LimitCheck,
    /// Join the queue if it cannot be granted now. Without it a ticket that queues already leaves the queue.
    pub queue: bool,
    /// Bound of the queue, for a ticket that is not in it yet.
    pub max_waiters: Option<u32>,
    /// Shown by `inspect`.
    pub label: Option<Arc<str>>,
}

/// The answer to [`Acquire`]. The step decides in the order of these checks: a tombstone, a hold of the ticket, the limit,
/// the weight, a turn, the bound of the queue. What is refused MUST store nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The ticket holds the permits. A ticket that held them already had its lease set anew and keeps its token and its
    /// label.
    ///
    /// The engine counts the lease from just before the request was sent. If half of it is over when the answer comes, the
    /// engine asks again with the same ticket (C6).
    Granted {
        /// The token of the grant.
        token: FencingToken,
        /// The limit in force.
        limit: u32,
        /// Names the life of a wait group's record, as [`Looked::born`](super::Looked::born); 0 for other objects.
        born: u64,
    },
    /// The ticket queues, or, if it was not asked to, did not get the permits and has no place.
    ///
    /// The engine lets a queued ticket wait for a hint or a poll that names it, and then asks again with the same ticket. A
    /// caller who did not ask to queue is told a definite no.
    Waiting {
        /// The limit in force.
        limit: u32,
        /// Names the life of the record that the ticket queues in, as [`Polled::born`]; of no use where it does not queue.
        born: u64,
    },
    /// A tombstone of this ticket is there: a cancel, release, attach or force came first (C4). The engine gives up.
    Cancelled,
    /// The stored limit differs and the check refuses that. The caller gets `ConfigMismatch`.
    Mismatch {
        /// The stored limit.
        stored: u32,
    },
    /// The weight is over the limit in force; the ticket has no place, also if it had one. The caller gets
    /// `InvalidArgument`.
    TooLarge {
        /// The limit in force.
        limit: u32,
    },
    /// The queue is at its bound, the silent not counted (C26). The caller gets that error.
    Overloaded,
}

/// Sets the lease of a hold anew. It may be shorter than what is left, and then counts at once.
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
    /// Leave a tombstone for this long, counted from the moment of the step: a request of this ticket may still be under
    /// way.
    pub tombstone: Option<Ttl>,
    /// Names this call, where another may end the hold too. The tombstone MUST keep the name of the call that ended the
    /// hold, and a retry that finds no hold but the tombstone of the same call MUST be answered `Yes`, as the first; with
    /// any other tombstone, or none, it is `No`, and nothing is changed. Needs a tombstone. Without a call, a retry is
    /// answered `No`, and the engine judges by its own deadline.
    pub call: Option<Ticket>,
}

/// Withdraws an acquisition, whatever became of it: a hold is released, a place in the queue given up. A tombstone MUST be
/// left in every case, also where there was a hold or a place: it refuses the acquire which the cancel overtook, and a
/// late copy of one that it did not (C4). A retry only sets the tombstone's time anew.
#[derive(Clone, Debug)]
pub struct Cancel {
    /// The object.
    pub object: Object,
    /// The acquisition.
    pub ticket: Ticket,
    /// How long the tombstone stays, counted from the moment of the step.
    pub lease: Ttl,
}

/// The answer to [`Renew`] and [`Release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The hold was there. After a renewal the engine believes in it for the new lease, counted from the sending.
    Yes,
    /// It was gone: expired, freed, or taken over. After a renewal the engine tells its holder at once (C9), and never asks
    /// about it again: `No` MUST be certain. A hold that is gone MUST NOT come back.
    No,
}

/// The answer to a poll, one for each object asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Polled {
    /// Waiters of the asking process whose turn it is, in order: those that an acquire would grant now, one after the
    /// other; and those that want more than the limit, which learn so when they ask. The engine lets these ask. It cancels
    /// a ticket that two answers in a row name and that nobody in this process knows.
    pub ready: Vec<Ticket>,
    /// In how long the next hold ends, or a waiter of another process in front falls silent, by the store's clock; `None`
    /// if neither can. The engine polls again 10 ms after that, or after 300 ms.
    pub next: Option<Duration>,
    /// Names the life of the object's record, 0 if there is none: another value than before says that the queue was lost.
    /// A poll makes no record.
    pub born: u64,
}

/// A detached hold, taken over: it gets another ticket, another lease, and keeps its token, weight and time of grant. The
/// old ticket MUST get a tombstone for what is left of its lease, and for the new lease at least.
#[derive(Clone, Debug)]
pub struct Attach {
    /// The object.
    pub object: Object,
    /// The detached hold.
    pub from: Ticket,
    /// The ticket it gets. A second attach of the same pair is answered as the first. A tombstone of this ticket refuses the
    /// attach.
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
    /// As `born` in [`Acquired::Granted`].
    pub born: u64,
}

/// Frees holds by force. Each freed ticket MUST get a tombstone for what was left of its lease: a late copy of its acquire
/// must not give its holder another hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// All holds of the object.
    All,
    /// The hold of this ticket.
    One(Ticket),
}

/// The steps of mutexes and semaphores: a mutex is a semaphore of one, with the same tokens. The members of a wait
/// group are holds of weight 1, too, with no limit or one.
///
/// # What is kept of a name
/// - Its **limit**, from the first grant or queued request on, for as long as anybody holds or waits, and for a retention
///   time after (C20, C25).
/// - Its last **fencing token**. A grant's token MUST be `max(last + 1, store time in µs since 1970)` (M2, M3).
/// - Its **holds**: ticket, weight, token, time of grant, end of the lease, label. A hold whose lease has ended MUST count
///   as gone in every step, whether anything has removed it yet or not (C8).
/// - Its **queue**: places in order of arrival, each with ticket, weight, process, and the lease of the request.
/// - **Tombstones**: tickets that are refused until a time, some with the call that left them.
/// - Its **birth**: see below.
///
/// # Birth
/// `born` names the life of a name's record: the store time in µs at which the record was made, or another number above 0
/// that no earlier record of the name had. 0 means that there is no record. It MUST stay the same for as long as the record
/// keeps a hold or a place, and MUST be another one once they were lost. The engine compares it with the last one it was
/// told: where it differs, the queue was lost with the record, and all waiters of the process ask anew. In an answer that
/// makes nobody wait (`Granted`, [`Attached`]) it is of use to wait groups only, and 0 for other objects.
///
/// # Who is live, and which places may be dropped
/// - A process is **heard** on a name when it polls that name, and when one of its requests joins the queue there or finds
///   its place. A store may hear it on more names than that, and by other requests.
/// - A process that was not heard for 1 s is **silent**. Its waiters MUST be passed over: they get no turn, keep nobody
///   behind them waiting, and do not count for `max_waiters`. They keep their places: heard again, a waiter is first
///   again (C16). The engine polls every 300 ms while anybody waits.
/// - Nobody may be judged silent in the first 2 s after the store stood still or was started again. A store that heard
///   nobody at all for a while cannot tell that from silence, and MUST give this **grace**, once: the dead alone MUST NOT
///   make it give another (C5).
/// - A place MUST be dropped by the acquire of its own ticket that is granted, is refused as `TooLarge`, or does not ask
///   to queue, and by a cancel of its ticket.
/// - A place may be dropped by the store alone only once its process was silent for the lease of the request, and for 1 s
///   at least, and no grace is on. It MUST be dropped some time after that (C25).
/// - A store that lost places MUST show it by another birth.
#[async_trait]
pub trait PermitSteps: Debug + Send + Sync {
    /// Steps on objects of one lane can leave in one request; a store that is one server has one lane.
    fn lane(&self, object: &Object) -> usize;

    /// Whether requests of that lane that are carried out at once wait for each other, as transactions do that lock the
    /// same rows. If so, acquires of several callers and releases of several leave in turn.
    fn excludes(&self, lane: usize) -> bool;

    /// Grants, queues or refuses, first come, first served among the live (C16): a request is granted only if its weight is
    /// free and no live waiter stands in front that could ever be served. Who is not queued has all of the queue in front.
    ///
    /// A grant that takes a place with it and leaves room wakes the next.
    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired>;

    /// Renews leases. It MUST NOT make a hold that is gone.
    async fn renew(&self, batch: &[Renew]) -> Answers<Kept>;

    /// Releases holds and sends the wake-ups that follow: a hint for each live waiter whose turn it is now, to its own
    /// process. Every step that ends a hold or a place, finds one ended, or raises a limit sends them. A hint may be lost
    /// or doubled, and one that cannot be sent MUST NOT fail the step (C14, C30).
    async fn release(&self, batch: &[Release]) -> Answers<Kept>;

    /// Withdraws acquisitions and sends the wake-ups that follow.
    async fn cancel(&self, batch: &[Cancel]) -> Answers<()>;

    /// Tells the store that the process's waiters for these objects are live, and asks whose turn it is.
    async fn poll(&self, batch: &[Object]) -> Answers<Polled>;

    /// Takes a detached hold over; `None` if it is certainly gone. The caller then gets `Lost`.
    ///
    /// # Errors
    /// As said for all steps.
    async fn attach(&self, attach: &Attach) -> Result<Option<Attached>>;

    /// The state of an object at one moment: holders, the oldest grant first, how many wait, and the limit, `None` where
    /// none is stored. It stores nothing.
    ///
    /// # Errors
    /// As said for all steps.
    async fn inspect(&self, object: &Object) -> Result<Inspection>;

    /// Sets the limit, also of a name never used, and wakes those who fit now, and those who never will. Nobody loses a
    /// permit by it (S6).
    ///
    /// # Errors
    /// As said for all steps.
    async fn resize(&self, object: &Object, limit: u32) -> Result<()>;

    /// Frees holds by force and tells how many. A retry frees what was granted in between, if it is to free all.
    ///
    /// # Errors
    /// As said for all steps.
    async fn force(&self, object: &Object, force: Force) -> Result<u32>;

    /// A sign of life: one round trip to the store itself.
    ///
    /// # Errors
    /// As said for all steps.
    async fn ping(&self) -> Result<()>;
}
