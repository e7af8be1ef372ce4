//! The events that a worker or the nemesis records.

use std::fmt;

use stanchion_core::{DecidedBy, ErrorKind, FencingToken, Kind, Name, Ticket};

use super::Call;

/// One event, as seen by the process that recorded it.
///
/// Times are microseconds of the machine's monotonic clock ([`clock`](super::clock)), durations
/// microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The time in µs. [`What`] says for each kind of event on which side of the call the clock is
    /// read.
    pub at: u64,
    /// The process: one number per process that ever ran. A restarted process has a new number.
    pub worker: u32,
    /// The task inside the process.
    pub task: u64,
    /// The operation: unique within the worker, from its invocation to the end of its hold. A fault
    /// has a number as well; 0 without an operation.
    pub operation: u64,
    /// The object, if the event has one.
    pub object: Option<ObjectId>,
    /// What happened.
    pub what: What,
}

impl Event {
    /// Returns an event without an object.
    #[must_use]
    pub fn new(at: u64, worker: u32, task: u64, operation: u64, what: What) -> Self {
        Self { at, worker, task, operation, object: None, what }
    }

    /// Sets the object.
    #[must_use]
    pub fn of(mut self, object: ObjectId) -> Self {
        self.object = Some(object);
        self
    }
}

/// A kind and a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// The kind.
    pub kind: Kind,
    /// The name.
    pub name: Name,
}

impl ObjectId {
    /// Creates the id of the object of that kind and name.
    #[must_use]
    pub fn new(kind: Kind, name: Name) -> Self {
        Self { kind, name }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind.as_str(), self.name)
    }
}

pub(super) const KINDS: [Kind; 4] = [Kind::Mutex, Kind::Semaphore, Kind::WaitGroup, Kind::Limiter];

/// The target of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The store, or every worker's connection to it.
    Store,
    /// One worker's connection to the store.
    Worker(u32),
    /// The event's object; calls on other objects must not notice.
    Object,
}

/// A change of a process, made or noticed by the nemesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The process was started. Clock read after the start. A worker without this event counts as
    /// alive until its last event only.
    Started,
    /// The process is killed. Clock read before the signal is sent.
    Killed,
    /// The process is stopped. Clock read before the signal is sent.
    Stopped,
    /// The process is resumed. Clock read after the signal was sent.
    Resumed,
    /// The process has ended by itself. Clock read when the nemesis noticed.
    Ended,
}

/// The kinds of events.
///
/// A call begins with [`Invoked`](Self::Invoked) and has at most one answer: `Granted`, `Refused`,
/// `Failed`, `Cancelled`, `Answered`, `Decided`, `Waited` or `Counted`. A call whose process is
/// killed before the answer has none, and both outcomes are considered possible.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A call begins. Clock read before the call.
    Invoked {
        /// The call.
        call: Call,
        /// The time limit of the call in µs; `None` without a limit. A call that makes one attempt
        /// (`try_lock`) is bounded by its request's time limit.
        time_limit: Option<u64>,
    },
    /// The call got a hold. Clock read when the call had returned.
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
    /// The worker saw that the deadline has moved.
    Renewed {
        /// The new deadline in µs.
        deadline: u64,
    },
    /// The worker called `is_held`. Clock read first, then `is_held`, then the deadline.
    Believed {
        /// The result.
        held: bool,
        /// The deadline in µs; `None` without a lease, or if the worker did not read it.
        deadline: Option<u64>,
    },
    /// `lost()` resolved.
    Lost,
    /// The worker gives the hold up: by release, `done`, drop or detach. Clock read before.
    Releasing {
        /// The lease of a detached hold in µs; `None` if the hold ends.
        lease: Option<u64>,
    },
    /// The release, `done` or `detach` has succeeded. A guard that is only dropped has no such
    /// event.
    Released,
    /// The release has failed.
    ReleaseFailed {
        /// The error; `Lost` means that the store had no such hold.
        error: ErrorKind,
    },
    /// The future was dropped before it ended. Clock read after.
    Cancelled,
    /// A definite no.
    Refused,
    /// An error.
    Failed {
        /// The error; `Unknown` means that either outcome is possible.
        error: ErrorKind,
    },
    /// The guarded resource has taken a write (M9).
    Wrote {
        /// The clock before the write was sent, in µs.
        began: u64,
        /// The token of the write.
        token: FencingToken,
        /// The ticket of the write.
        ticket: Ticket,
        /// The write's sequence number: the resource raises it with each write that it takes.
        sequence: u64,
    },
    /// The guarded resource has refused a write (M9).
    WriteRefused {
        /// The clock before the write was sent, in µs.
        began: u64,
        /// The token of the write.
        token: FencingToken,
        /// The ticket of the write.
        ticket: Ticket,
    },
    /// A limiter has decided.
    Decided {
        /// Whether the cost was taken.
        allowed: bool,
        /// The store's clock at the decision in µs, if it is known.
        store_time: Option<u64>,
        /// The time in µs after which the same call would be admitted.
        retry_after: Option<u64>,
        /// The decider: store, local cache or outage policy.
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
    /// A call returned the number of members of a wait group.
    Counted {
        /// The number.
        count: u64,
    },
    /// A call without a result has succeeded: `resize`, a forced release, `done` by ticket,
    /// `set_quota`, `reset`.
    Answered,
    /// After a time without calls, exactly this number of permits could be taken from a semaphore
    /// (S4). Needs no invocation; the acquisitions that found the number need not be recorded.
    Drained {
        /// The clock before the first acquisition, in µs.
        began: u64,
        /// The number of permits.
        permits: u32,
    },
    /// A fault begins. Its operation number identifies it. Clock read before.
    FaultBegan {
        /// A description of the fault.
        fault: String,
        /// The target of the fault.
        target: Target,
        /// Whether the contract calls it safe for this store: for session locks, a server that ends
        /// sessions is not safe. An unsafe fault may take away any hold that was requested before
        /// the end of the fault, from the begin of the fault on; tokens still grow.
        safe: bool,
    },
    /// The fault of the same operation is over. Clock read after.
    FaultEnded,
    /// The machine stalled: a thread that does nothing but sleep woke up this much too late, a
    /// thread of the process that records it waited this long for a processor, or a request that
    /// has nothing to do with the store took this long at the server. Any delay in that time may be
    /// due to the stall.
    StoodStill {
        /// The length of the stall in µs; it ended at the time of the event.
        length: u64,
    },
    /// Something happened to a process.
    Process {
        /// The number of the process.
        worker: u32,
        /// The change.
        change: Change,
    },
}
