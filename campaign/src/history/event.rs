//! What a worker or the nemesis writes down.

use std::fmt;

use stanchion_core::{DecidedBy, ErrorKind, FencingToken, Kind, Name, Ticket};

use super::Call;

/// One thing that happened, as it was seen by the process that wrote it.
///
/// Times are microseconds of the machine's monotonic clock ([`clock`](super::clock)), durations microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// When, in µs; [`What`] says for each kind on which side of the call the clock is read.
    pub at: u64,
    /// The process: one number per process that ever ran, a restarted one has a new number.
    pub worker: u32,
    /// The task inside the process.
    pub task: u64,
    /// The operation: unique within the worker, from its invocation to the end of what it was granted. A fault has
    /// one as well; 0 where there is none.
    pub operation: u64,
    /// The object, where the event has one.
    pub object: Option<ObjectId>,
    /// What happened.
    pub what: What,
}

impl Event {
    /// An event without an object.
    #[must_use]
    pub fn new(at: u64, worker: u32, task: u64, operation: u64, what: What) -> Self {
        Self { at, worker, task, operation, object: None, what }
    }

    /// The same event of that object.
    #[must_use]
    pub fn of(mut self, object: ObjectId) -> Self {
        self.object = Some(object);
        self
    }
}

/// A kind and a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: Name,
}

impl ObjectId {
    /// The object of that kind and name.
    #[must_use]
    pub fn new(kind: Kind, name: Name) -> Self {
        Self { kind, name }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", kind_text(self.kind), self.name)
    }
}

pub(super) const KINDS: [Kind; 4] = [Kind::Mutex, Kind::Semaphore, Kind::WaitGroup, Kind::Limiter];

pub(super) fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Mutex => "mutex",
        Kind::Semaphore => "semaphore",
        Kind::WaitGroup => "wait_group",
        Kind::Limiter => "limiter",
        Kind::BloomFilter => "bloom_filter",
    }
}

/// Whom a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The store, or everybody's way to it.
    Store,
    /// One worker's way to the store.
    Worker(u32),
}

/// What the nemesis did to a process, or saw of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// It runs. Clock read after the start. A worker that was never started counts as alive until its last event only.
    Started,
    /// It is killed. Clock read before the signal is sent.
    Killed,
    /// It is stopped. Clock read before the signal is sent.
    Stopped,
    /// It goes on. Clock read after the signal was sent.
    Resumed,
    /// It has ended by itself. Clock read when that was noticed.
    Ended,
}

/// The kinds of events.
///
/// A call begins with [`Invoked`](Self::Invoked) and has at most one answer: `Granted`, `Refused`, `Failed`,
/// `Cancelled`, `Answered`, `Decided`, `Waited` or `Counted`. Whoever is killed in between has none, and both outcomes
/// are thought possible.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A call begins. Clock read before.
    Invoked {
        /// Which one.
        call: Call,
        /// It must have ended after this many µs; `None` if it may take as long as it takes. A call that makes one
        /// attempt (`try_lock`) is bounded by its request's time limit.
        time_limit: Option<u64>,
    },
    /// It got a hold. Clock read when the call had returned.
    Granted {
        /// The ticket.
        ticket: Ticket,
        /// The fencing token.
        token: FencingToken,
        /// The deadline in µs of the same clock; `None` without a lease.
        deadline: Option<u64>,
        /// The permits.
        weight: u32,
    },
    /// The deadline was seen to have moved.
    Renewed {
        /// The new one, in µs.
        deadline: u64,
    },
    /// The worker asked `is_held`. First the clock is read, then `is_held`, then the deadline.
    Believed {
        /// The answer.
        held: bool,
        /// The deadline in µs; `None` without a lease, or if it was not read.
        deadline: Option<u64>,
    },
    /// `lost()` was seen to resolve.
    Lost,
    /// The hold is given up: released, done, dropped or detached. Clock read before.
    Releasing {
        /// The lease in µs that a detached hold was given; `None` for an end.
        lease: Option<u64>,
    },
    /// The release, `done` or `detach` has succeeded. Nothing follows a guard that was just dropped.
    Released,
    /// The release has failed.
    ReleaseFailed {
        /// How; `Lost` says that the store had no such hold.
        error: ErrorKind,
    },
    /// The future was dropped before it ended. Clock read after.
    Cancelled,
    /// A definite no.
    Refused,
    /// An error.
    Failed {
        /// Which; `Unknown` means either outcome.
        error: ErrorKind,
    },
    /// The guarded resource has taken a write (M9).
    Wrote {
        /// The clock before the write was sent, in µs.
        began: u64,
        /// The token it was sent with.
        token: FencingToken,
        /// The ticket it was sent with.
        ticket: Ticket,
        /// Its place in the order of the resource: a number that the resource raises with each write it takes.
        sequence: u64,
    },
    /// The guarded resource has refused a write (M9).
    WriteRefused {
        /// The clock before the write was sent, in µs.
        began: u64,
        /// The token it was sent with.
        token: FencingToken,
        /// The ticket it was sent with.
        ticket: Ticket,
    },
    /// A limiter has decided.
    Decided {
        /// Whether the cost was taken.
        allowed: bool,
        /// The store's clock at the decision, in µs, where it is known.
        store_time: Option<u64>,
        /// After how many µs the same call would be admitted.
        retry_after: Option<u64>,
        /// Who decided.
        by: DecidedBy,
    },
    /// `wait` of a wait group has succeeded, with this report.
    Waited {
        /// Members that called `done`.
        finished: u64,
        /// Members dropped without `done`.
        abandoned: u64,
        /// Members whose lease ended.
        expired: u64,
    },
    /// How many members a wait group has.
    Counted {
        /// The number.
        count: u64,
    },
    /// A call without a result has succeeded: resize, force, done by ticket, set quota, reset.
    Answered,
    /// After a time of quiet, exactly so many permits of a semaphore could be taken and not one more (S4). Needs no
    /// invocation; the acquisitions it was found out by need not be recorded.
    Drained {
        /// The clock before the first of them, in µs.
        began: u64,
        /// How many.
        permits: u32,
    },
    /// A fault begins; its operation tells it from others. Clock read before.
    FaultBegan {
        /// What it is, in words.
        fault: String,
        /// Whom it strikes.
        target: Target,
        /// Whether the contract calls it safe for this store: for session locks, a server that ends sessions is not. What
        /// was asked for before the end of an unsafe one may have been taken away from its begin on; tokens still grow.
        safe: bool,
    },
    /// The fault of the same operation is over. Clock read after.
    FaultEnded,
    /// The machine stood still: a thread that does nothing but sleep was this much late, when the event was written.
    /// Whatever was late by then may have been late for that.
    StoodStill {
        /// For how long, up to now, in µs.
        length: u64,
    },
    /// Something happened to a process.
    Process {
        /// To which.
        worker: u32,
        /// What.
        change: Change,
    },
}
