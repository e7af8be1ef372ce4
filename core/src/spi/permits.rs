//! The steps of mutexes, semaphores and the members of wait groups.

use std::sync::Arc;
use std::time::Duration;

use super::{Object, ParameterCheck};
use crate::{FencingToken, Ticket, Ttl};

/// What an acquisition is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// A guard: the engine renews the hold, and releases it when its holder is done. The store
    /// alone excludes the other holders.
    #[default]
    Guard,
    /// A turn in a transaction of the user on the store's own database: the engine renews the hold
    /// until the transaction has a lock of its own on the name, and releases it then. From then on
    /// that lock excludes the other holders.
    ///
    /// Only the backend itself requests such turns, by
    /// [`Engine::mutex_for`](crate::engine::Engine::mutex_for). A store MUST grant them in the
    /// order of the queue, as any other request, and MAY keep them elsewhere than the other holds,
    /// with rules of its own for what their transaction tests. A store whose users bring no
    /// transactions ignores the purpose.
    Transaction,
}

/// A request for permits.
///
/// It is granted, queued or refused, first come, first served among the live ([C16]): it is granted
/// only if its weight is free and no live waiter is in front that could ever be granted. For a
/// ticket that is not queued, the whole queue is in front. A grant to a queued ticket that leaves
/// permits free wakes the next waiter.
///
/// [C16]: crate::contract#c16
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// The object.
    pub object: Object,
    /// Identifies the acquisition; the same in every retry.
    pub ticket: Ticket,
    /// Number of permits.
    pub weight: u32,
    /// The lease of the grant, counted from the moment of the step; also the time for which a
    /// silent waiter keeps its place.
    pub lease: Ttl,
    /// The limit as the caller knows it, in force if none is stored; 1 for a mutex,
    /// [`NO_LIMIT`](super::NO_LIMIT) for a wait group without one.
    pub limit: u32,
    /// How the limit is compared. It MUST NOT be compared again for a ticket that holds or queues
    /// already.
    pub check: ParameterCheck,
    /// Whether to join the queue if the request cannot be granted now. If not, a ticket that queues
    /// already leaves the queue.
    pub queue: bool,
    /// Maximum length of the queue, for a ticket that is not in it yet.
    pub max_waiters: Option<u32>,
    /// The label that `inspect` shows.
    pub label: Option<Arc<str>>,
    /// What the hold is for. It does not change between the requests of one ticket.
    pub purpose: Purpose,
}

/// The answer to [`Acquire`]. The step decides in the order of these checks: a tombstone, a hold of
/// the ticket, the limit, the weight, the queue in front, the bound of the queue. A refused request
/// MUST store nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acquired {
    /// The ticket holds the permits. A ticket that held them already had its lease set anew and
    /// keeps its token and its label.
    ///
    /// The engine counts the lease from just before the request was sent. If half of it is over
    /// when the answer arrives, the engine sends the request again with the same ticket ([C6]).
    ///
    /// [C6]: crate::contract#c6
    Granted {
        /// The token of the grant.
        token: FencingToken,
        /// The limit in force.
        limit: u32,
        /// The epoch of a wait group's record, as [`Looked::epoch`](super::Looked::epoch); 0 for
        /// other objects.
        epoch: u64,
    },
    /// The ticket queues; or, if the request was not to queue, it was not granted and has no place.
    ///
    /// The engine waits for a hint or a poll that names a queued ticket, and then sends the request
    /// again with the same ticket. A call that was not to queue returns a definite no.
    Waiting {
        /// The limit in force.
        limit: u32,
        /// The epoch of the record that the ticket queues in, as [`Polled::epoch`]; not used if the
        /// ticket does not queue.
        epoch: u64,
    },
    /// The ticket has a tombstone: a cancel, release, attach or force was executed first ([C4]).
    /// The engine asks anew, with another ticket, unless the store object was closed.
    ///
    /// [C4]: crate::contract#c4
    Cancelled,
    /// The stored limit differs and the check refuses that. The call returns `ConfigMismatch`.
    Mismatch {
        /// The stored limit.
        stored: u32,
    },
    /// The weight is more than the limit in force. The ticket loses its place, if it had one. The
    /// call returns `InvalidArgument`.
    TooLarge {
        /// The limit in force.
        limit: u32,
    },
    /// The queue is at its bound, without silent waiters ([C26]). The call returns `Overloaded`.
    ///
    /// [C26]: crate::contract#c26
    Overloaded,
}

/// A request to set the lease of a hold anew. A lease shorter than the rest of the old one takes
/// effect at once. It MUST NOT make a hold that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// A request to end a hold. It sends the resulting wake-ups: a hint for each live waiter that may
/// be granted now, to its own process. Every request that ends a hold or a place, finds one ended,
/// or raises a limit sends them. A hint may be lost or doubled, and a hint that cannot be sent MUST
/// NOT fail the request ([C14], [C30]).
///
/// [C14]: crate::contract#c14
/// [C30]: crate::contract#c30
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The object.
    pub object: Object,
    /// The hold.
    pub ticket: Ticket,
    /// How it ends, for a member of a wait group.
    pub ending: Ending,
    /// Time for which a tombstone is left, counted from the moment of the step: a request of this
    /// ticket may still be under way.
    pub tombstone: Option<Ttl>,
    /// Identifies this call, where another call may end the hold, too. The tombstone MUST keep the
    /// id of the call that ended the hold. A retry that finds no hold, but the tombstone of the
    /// same call, MUST be answered `Yes`, as the first attempt; with another tombstone, or none,
    /// the answer is `No` and nothing is changed. Requires a tombstone. Without a call, a retry is
    /// answered `No`, and the engine decides by its own deadline.
    pub call: Option<Ticket>,
}

/// A request to withdraw an acquisition, whatever its outcome: a hold is released, a place in the
/// queue given up. A tombstone that is asked for MUST be left in every case, also if there was a
/// hold or a place: it refuses an acquire that arrives after its cancel, and a late copy of one
/// that arrived before ([C4]). A retry only sets the tombstone's time anew.
///
/// [C4]: crate::contract#c4
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// The object.
    pub object: Object,
    /// The acquisition.
    pub ticket: Ticket,
    /// Time for which a tombstone is left, counted from the moment of the step; `None` where every
    /// request of the ticket was answered.
    pub tombstone: Option<Ttl>,
}

/// The answer to [`Renew`] and [`Release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// The hold existed. After a renewal, the engine considers it held for the new lease, counted
    /// from the sending.
    Yes,
    /// The hold was gone: expired, released, or taken over. After a renewal, the engine tells its
    /// holder at once ([C9]) and never asks about it again, so `No` MUST be certain. A hold that is
    /// gone MUST NOT come back.
    ///
    /// [C9]: crate::contract#c9
    No,
}

/// Tells the store that the process's waiters for this object are live, and asks which of them may
/// be granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poll {
    /// The object.
    pub object: Object,
}

/// Tells the store that the process's waiters for this object are live, and no more: the answer is
/// `None` if that was noted. A store may answer as it answers a [`Poll`], and MUST do so if the
/// process was silent: waiters that were passed over are first again.
///
/// The engine sends this about objects that no poll is due for. It is worth having if it is cheaper
/// than a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepPlaces {
    /// The object.
    pub object: Object,
}

/// The answer to a [`Poll`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Polled {
    /// The waiters of the polling process that may be granted, in order: those that acquires in
    /// this order would grant now, and those that request more than the limit, whose acquire says
    /// so. The engine sends their acquires. It cancels a ticket that two answers in a row name and
    /// that no acquisition of this process has.
    pub ready: Vec<Ticket>,
    /// Time until the next hold ends, or until a waiter of another process in front falls silent,
    /// by the store's clock; `None` if neither can happen. The engine polls again 10 ms later, or
    /// when it would anyway.
    pub next: Option<Duration>,
    /// Whether a waiter of the polling process is the first of the queue, or as good as that. The
    /// engine polls again after 300 ms then, and after 900 ms otherwise.
    pub is_first: bool,
    /// The epoch of the object's record, 0 if there is none. A value that differs from the last one
    /// says that the queue was lost. A poll makes no record.
    pub epoch: u64,
}

/// A request to take over a detached hold: it gets another ticket and another lease, and keeps its
/// token, weight and time of grant. The old ticket MUST get a tombstone for the rest of its lease,
/// and for the new lease at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attach {
    /// The object.
    pub object: Object,
    /// The detached hold.
    pub from: Ticket,
    /// The new ticket. A second attach of the same pair is answered as the first. A tombstone of
    /// this ticket refuses the attach.
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

/// The holds to release by force. Each released ticket MUST get a tombstone for the rest of its
/// lease: a late copy of its acquire must not be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// All holds of the object.
    All,
    /// The hold of this ticket.
    One(Ticket),
}

/// A request to release holds by force. A retry for [`Force::All`] also releases holds granted in
/// between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForceRelease {
    /// The object.
    pub object: Object,
    /// The holds.
    pub force: Force,
}

/// Sets the limit, also of an unused name, and wakes the waiters that fit now and those that never
/// will. No holder loses a permit by it ([S6]).
///
/// [S6]: crate::contract#s6
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resize {
    /// The object.
    pub object: Object,
    /// The new limit.
    pub limit: u32,
}

/// Asks for the state of an object at one moment: its holders, oldest grant first, the number of
/// waiters, and the limit, `None` if none is stored. Stores nothing. A waiter whose place may be
/// dropped SHOULD NOT count, and MUST NOT where the queue is short: see [`spi`](super).
///
/// The holders of an object that has more than 1,000 MAY be asked for in several requests to the
/// server, and MUST be where one would hold the server for longer than 10 ms ([C27]);
/// [`inspect_in_parts`](super::inspect_in_parts) puts them together. Then a hold that lasts all
/// through MUST be in the answer, unless its lease is shortened or it is taken over meanwhile; each
/// ticket comes once.
///
/// [C27]: crate::contract#c27
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspect {
    /// The object.
    pub object: Object,
}

/// Asks for the totals of an object. Stores nothing. A store that keeps totals SHOULD read those
/// alone; another may inspect the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Total {
    /// The object.
    pub object: Object,
}

/// A request to the store itself, which does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping;
