//! The steps of mutexes, semaphores and the members of wait groups.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Answers, Exchange, Exchanged, Object, ParameterCheck, Usage};
use crate::{FencingToken, Inspection, Result, Ticket, Ttl};

/// What an acquisition is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// A guard: the engine renews the hold, and releases it when its holder is done. The store alone excludes the other
    /// holders.
    #[default]
    Guard,
    /// A turn in a transaction of the user on the store's own database: the engine renews the hold until the transaction
    /// has a lock of its own on the name, and releases it then. From then on that lock excludes the other holders.
    ///
    /// Only the backend itself requests such turns, by [`Engine::mutex_for`](crate::engine::Engine::mutex_for). A store MUST
    /// grant them in the order of the queue, as any other request, and MAY keep them elsewhere than the other holds, with
    /// rules of its own for what their transaction tests. A store whose users bring no transactions ignores the purpose.
    Transaction,
}

/// A request for permits.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The object.
    pub object: Object,
    /// Identifies the acquisition; the same in every retry.
    pub ticket: Ticket,
    /// Number of permits.
    pub weight: u32,
    /// The lease of the grant, counted from the moment of the step; also the time for which a silent waiter keeps its place.
    pub lease: Ttl,
    /// The limit as the caller knows it, in force if none is stored; 1 for a mutex,
    /// [`NO_LIMIT`](super::NO_LIMIT) for a wait group without one.
    pub limit: u32,
    /// How the limit is compared. It MUST NOT be compared again for a ticket that holds or queues already.
    pub check: ParameterCheck,
    /// Whether to join the queue if the request cannot be granted now. If not, a ticket that queues already leaves the queue.
    pub queue: bool,
    /// Maximum length of the queue, for a ticket that is not in it yet.
    pub max_waiters: Option<u32>,
    /// The label that `inspect` shows.
    pub label: Option<Arc<str>>,
    /// What the hold is for. It does not change between the requests of one ticket.
    pub purpose: Purpose,
}

/// The answer to [`Acquire`]. The step decides in the order of these checks: a tombstone, a hold of the ticket, the limit,
/// the weight, the queue in front, the bound of the queue. A refused request MUST store nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acquired {
    /// The ticket holds the permits. A ticket that held them already had its lease set anew and keeps its token and its
    /// label.
    ///
    /// The engine counts the lease from just before the request was sent. If half of it is over when the answer
    /// arrives, the engine sends the request again with the same ticket ([C6]).
    ///
    /// [C6]: crate::contract#c6
    Granted {
        /// The token of the grant.
        token: FencingToken,
        /// The limit in force.
        limit: u32,
        /// The epoch of a wait group's record, as [`Looked::epoch`](super::Looked::epoch); 0 for other objects.
        epoch: u64,
    },
    /// The ticket queues; or, if the request was not to queue, it was not granted and has no place.
    ///
    /// The engine waits for a hint or a poll that names a queued ticket, and then sends the request again with the same ticket.
    /// A call that was not to queue returns a definite no.
    Waiting {
        /// The limit in force.
        limit: u32,
        /// The epoch of the record that the ticket queues in, as [`Polled::epoch`]; not used if the ticket does not queue.
        epoch: u64,
    },
    /// The ticket has a tombstone: a cancel, release, attach or force was executed first ([C4]). The engine gives up.
    ///
    /// [C4]: crate::contract#c4
    Cancelled,
    /// The stored limit differs and the check refuses that. The call returns `ConfigMismatch`.
    Mismatch {
        /// The stored limit.
        stored: u32,
    },
    /// The weight is more than the limit in force. The ticket loses its place, if it had one. The call returns
    /// `InvalidArgument`.
    TooLarge {
        /// The limit in force.
        limit: u32,
    },
    /// The queue is at its bound, without silent waiters ([C26]). The call returns `Overloaded`.
    ///
    /// [C26]: crate::contract#c26
    Overloaded,
}

/// A request to set the lease of a hold anew. A lease shorter than the rest of the old one takes effect at once.
#[derive(Clone, Debug)]
pub struct Renew {
    /// The object.
    pub object: Object,
    /// The hold.
    pub ticket: Ticket,
    /// The lease, counted from the moment of the step.
    pub lease: Ttl,
}

/// How a member of a wait group ends ([W4]). It has no meaning for other holds.
///
/// [W4]: crate::contract#w4
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// By `done`.
    Finished,
    /// By its guard's drop, or by force.
    #[default]
    Abandoned,
}

/// A request to end a hold.
#[derive(Clone, Debug)]
pub struct Release {
    /// The object.
    pub object: Object,
    /// The hold.
    pub ticket: Ticket,
    /// How it ends, for a member of a wait group.
    pub ending: Ending,
    /// Time for which a tombstone is left, counted from the moment of the step: a request of this ticket may still be under
    /// way.
    pub tombstone: Option<Ttl>,
    /// Identifies this call, where another call may end the hold, too. The tombstone MUST keep the id of the call that ended
    /// the hold. A retry that finds no hold, but the tombstone of the same call, MUST be answered `Yes`, as the first attempt;
    /// with another tombstone, or none, the answer is `No` and nothing is changed. Requires a tombstone. Without a call, a
    /// retry is answered `No`, and the engine decides by its own deadline.
    pub call: Option<Ticket>,
}

/// A request to withdraw an acquisition, whatever its outcome: a hold is released, a place in the queue given up. A
/// tombstone MUST be left in every case, also if there was a hold or a place: it refuses an acquire that arrives after
/// its cancel, and a late copy of one that arrived before ([C4]). A retry only sets the tombstone's time anew.
///
/// [C4]: crate::contract#c4
#[derive(Clone, Debug)]
pub struct Cancel {
    /// The object.
    pub object: Object,
    /// The acquisition.
    pub ticket: Ticket,
    /// Time for which the tombstone is kept, counted from the moment of the step.
    pub lease: Ttl,
}

/// The answer to [`Renew`] and [`Release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// The hold existed. After a renewal, the engine considers it held for the new lease, counted from the sending.
    Yes,
    /// The hold was gone: expired, released, or taken over. After a renewal, the engine tells its holder at once ([C9])
    /// and never asks about it again, so `No` MUST be certain. A hold that is gone MUST NOT come back.
    ///
    /// [C9]: crate::contract#c9
    No,
}

/// The answer to a poll, one for each object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Polled {
    /// The waiters of the polling process that may be granted, in order: those that acquires in this order would grant now, and
    /// those that request more than the limit, whose acquire says so. The engine sends their acquires. It cancels a ticket
    /// that two answers in a row name and that no acquisition of this process has.
    pub ready: Vec<Ticket>,
    /// Time until the next hold ends, or until a waiter of another process in front falls silent, by the store's clock; `None`
    /// if neither can happen. The engine polls again 10 ms later, or when it would anyway.
    pub next: Option<Duration>,
    /// Whether a waiter of the polling process is the first of the queue, or as good as that. The engine polls again after
    /// 300 ms then, and after 900 ms otherwise.
    pub is_first: bool,
    /// The epoch of the object's record, 0 if there is none. A value that differs from the last one says that the queue was
    /// lost. A poll makes no record.
    pub epoch: u64,
}

/// A request to take over a detached hold: it gets another ticket and another lease, and keeps its token, weight and time of
/// grant. The old ticket MUST get a tombstone for the rest of its lease, and for the new lease at least.
#[derive(Clone, Debug)]
pub struct Attach {
    /// The object.
    pub object: Object,
    /// The detached hold.
    pub from: Ticket,
    /// The new ticket. A second attach of the same pair is answered as the first. A tombstone of this ticket refuses the attach.
    pub to: Ticket,
    /// The new lease.
    pub lease: Ttl,
    /// The label that `inspect` shows; `None` keeps the hold's label.
    pub label: Option<Arc<str>>,
}

/// The hold that an attach took over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The token of the original grant.
    pub token: FencingToken,
    /// Number of permits.
    pub weight: u32,
    /// As `epoch` in [`Acquired::Granted`].
    pub epoch: u64,
}

/// The holds to release by force. Each released ticket MUST get a tombstone for the rest of its lease: a late copy of its
/// acquire must not be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// All holds of the object.
    All,
    /// The hold of this ticket.
    One(Ticket),
}

/// The steps of mutexes and semaphores. A mutex is a semaphore with one permit. The members of a wait group are holds of
/// weight 1, with a limit or without.
///
/// # What is kept of a name
/// - Its **limit**, from the first grant or queued request on, while there are holds or waiters, and for a retention
///   time after ([C20], [C25]).
/// - Its last **fencing token**. A grant's token MUST be `max(last + 1, store time in µs since 1970)` ([M2], [M3]).
/// - Its **holds**: ticket, weight, token, time of grant, end of the lease, label. A hold whose lease has ended MUST
///   count as gone in every step, whether anything has removed it yet or not ([C8]).
/// - Its **queue**: places in order of arrival, each with ticket, weight, process, and the lease of the request.
/// - **Tombstones**: tickets that are refused until a time, some with the call that left them.
/// - Its **epoch**: see below.
///
/// # Epoch
/// `epoch` identifies a name's record: the store time in µs at which the record was made, or another number above 0 that no
/// earlier record of the name had. 0 means that there is no record. It MUST NOT change while the record keeps a hold or a
/// place, and MUST change once they were lost. The engine compares it with the last value: if it differs, the queue was
/// lost with the record, and all waiters of the process send their requests again. In an answer after which no caller waits
/// (`Granted`, [`Attached`]), only wait groups use it; it is 0 for other objects.
///
/// # Live and silent processes, and which places may be dropped
/// - A process is **heard** on a name when it polls that name or keeps its places there, and when one of its requests joins
///   the queue there or finds its place. A store may count other requests, and hear a process on other names by them.
/// - A process that was not heard for 1 s is **silent**. Its waiters MUST be passed over: they are not granted, do not
///   delay the waiters behind them, and do not count for `max_waiters`. They keep their places: once the process is
///   heard again, a waiter is first again ([C16]). The engine polls, or keeps the places, every 300 ms while there are
///   waiters.
/// - No process may be judged silent in the first 2 s after the store stood still or was restarted. A store that heard
///   no process at all for a while cannot tell the two apart, and MUST give this **grace**, once: processes that were
///   silent for a whole grace MUST NOT start another ([C5]).
/// - A place MUST be dropped by the acquire of its own ticket that is granted, is refused as `TooLarge`, or does not ask
///   to queue, and by a cancel of its ticket.
/// - A store may drop a place on its own only once the process was silent for the lease of the request, for 1 s at
///   least, and outside a grace. It MUST drop the place some time after that ([C25]).
/// - A store that lost places MUST show that by another epoch.
///
/// [C20]: crate::contract#c20
/// [C25]: crate::contract#c25
/// [M2]: crate::contract#m2
/// [M3]: crate::contract#m3
/// [C8]: crate::contract#c8
/// [C16]: crate::contract#c16
/// [C5]: crate::contract#c5
#[async_trait]
pub trait PermitSteps: Debug + Send + Sync {
    /// Returns the lane of an object: steps on objects of one lane can leave in one request. A store on one server has one lane.
    fn lane(&self, object: &Object) -> usize;

    /// Returns the lane of an object's releases and acquires, if those of one lane leave together, by
    /// [`exchange`](Self::exchange), and wait for the answer to their last request; `None` if the two leave side by side, each
    /// by its own step and in the lane of [`lane`](Self::lane). A store does well to join them if it can answer both in one
    /// request, and no entry makes the others wait.
    ///
    /// An object MUST keep its lane, so that its requests keep their order. Two lanes for one server let it work on one request
    /// while the answers to the other are on their way.
    fn exchange_lane(&self, object: &Object) -> Option<usize>;

    /// Ends holds and requests permits in one request, or as few as the store can. Each entry is answered as by
    /// [`release`](Self::release) or [`acquire`](Self::acquire), in the order of the batch. The releases SHOULD come first,
    /// whatever their places, so that what they free is there for the acquires.
    ///
    /// The default makes a request of each part, one after the other.
    async fn exchange(&self, batch: &[Exchange]) -> Answers<Exchanged> {
        let (releases, acquires) = Exchange::split(batch);
        let released = if releases.is_empty() { Vec::new() } else { self.release(&releases).await };
        let acquired = if acquires.is_empty() { Vec::new() } else { self.acquire(&acquires).await };
        Exchange::join(batch, released, acquired)
    }

    /// Grants, queues or refuses, first come, first served among the live ([C16]): a request is granted only if its
    /// weight is free and no live waiter is in front that could ever be granted. For a ticket that is not queued, the
    /// whole queue is in front.
    ///
    /// A grant to a queued ticket that leaves permits free wakes the next waiter.
    ///
    /// [C16]: crate::contract#c16
    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired>;

    /// Renews leases. It MUST NOT make a hold that is gone.
    async fn renew(&self, batch: &[Renew]) -> Answers<Kept>;

    /// Releases holds and sends the resulting wake-ups: a hint for each live waiter that may be granted now, to its own
    /// process. Every step that ends a hold or a place, finds one ended, or raises a limit sends them. A hint may be
    /// lost or doubled, and a hint that cannot be sent MUST NOT fail the step ([C14], [C30]).
    ///
    /// [C14]: crate::contract#c14
    /// [C30]: crate::contract#c30
    async fn release(&self, batch: &[Release]) -> Answers<Kept>;

    /// Withdraws acquisitions and sends the resulting wake-ups.
    async fn cancel(&self, batch: &[Cancel]) -> Answers<()>;

    /// Tells the store that the process's waiters for these objects are live, and returns which of them may be granted.
    async fn poll(&self, batch: &[Object]) -> Answers<Polled>;

    /// Tells the store that the process's waiters for these objects are live, and no more: `None` if that was noted. A store
    /// may answer as by [`poll`](Self::poll), and MUST do so if the process was silent: waiters that were passed over are
    /// first again.
    ///
    /// The engine asks this about objects that no poll is due for. It is worth having if it is cheaper than a poll. The
    /// default polls.
    async fn keep_places(&self, batch: &[Object]) -> Answers<Option<Polled>> {
        self.poll(batch).await.into_iter().map(|answer| answer.map(Some)).collect()
    }

    /// Takes a detached hold over; `None` if it is certainly gone. The call then returns `Lost`.
    ///
    /// # Errors
    /// As all steps.
    async fn attach(&self, attach: &Attach) -> Result<Option<Attached>>;

    /// Returns the state of an object at one moment: its holders, oldest grant first, the number of waiters, and the limit,
    /// `None` if none is stored. Stores nothing. A waiter whose place may be dropped SHOULD NOT count, and MUST NOT where the
    /// queue is short: see above.
    ///
    /// The holders of an object that has more than 1,000 MAY be told in several requests, and MUST be where one would hold the
    /// server for longer than 10 ms ([C27]); [`inspect_in_parts`](super::inspect_in_parts) puts them together. Then a hold that
    /// lasts all through MUST be told, unless its lease is shortened or it is taken over meanwhile; each ticket comes once.
    ///
    /// # Errors
    /// As all steps.
    ///
    /// [C27]: crate::contract#c27
    async fn inspect(&self, object: &Object) -> Result<Inspection>;

    /// Returns the totals of an object. Stores nothing.
    ///
    /// The default inspects the object. A store that keeps totals SHOULD read those alone.
    ///
    /// # Errors
    /// As all steps.
    async fn usage(&self, object: &Object) -> Result<Usage> {
        let inspection = self.inspect(object).await?;
        let weight = inspection.holders.iter().map(|holder| u64::from(holder.weight)).sum();
        Ok(Usage::new(weight, inspection.limit))
    }

    /// Sets the limit, also of an unused name, and wakes the waiters that fit now and those that never will. No holder
    /// loses a permit by it ([S6]).
    ///
    /// # Errors
    /// As all steps.
    ///
    /// [S6]: crate::contract#s6
    async fn resize(&self, object: &Object, limit: u32) -> Result<()>;

    /// Releases holds by force and returns how many. A retry of [`Force::All`] also releases holds granted in between.
    ///
    /// # Errors
    /// As all steps.
    async fn force(&self, object: &Object, force: Force) -> Result<u32>;

    /// Makes one round trip to the store itself.
    ///
    /// # Errors
    /// As all steps.
    async fn ping(&self) -> Result<()>;
}
