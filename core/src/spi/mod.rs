//! The interface for authors of lease stores: steps of one round trip each.
//!
//! # Rules for every step
//! - A step MUST be atomic: another step sees all of what it did to a name, or nothing of it.
//! - A step MUST be idempotent: a **retry** is the same request with the same tickets, sent because the answer to the
//!   first one did not come. The first one may have been executed, may have been lost, or may still be under way and come
//!   after the retry. A retry MUST be answered as the first one was and MUST NOT do anything twice, except for leases: a
//!   retry sets the lease anew, since the engine counts the lease from the last request.
//! - A step MUST NOT wait for other callers, and MUST NOT retry, renew or sleep: the engine does all that. It may wait for
//!   the lock of a record, within its time limit.
//! - A step MUST use the store's clock only, and MUST read it after any lock wait ([C7]), once for all entries that it
//!   carries out together. The clock is a wall clock, the same for all clients of the store; where it is set back,
//!   leases last longer, and tokens MUST grow all the same. No time of a client is ever sent: a lease is a length, and
//!   so is every time that a step of mutexes, semaphores and wait groups answers.
//!
//! # Batches
//! A step takes a batch, carries its entries out one after the other, and MUST answer each, in order, with as many answers
//! as entries. An entry sees what the entries before it did: of two requests for one mutex the first is granted. One
//! ticket may stand in a batch twice. An entry that fails MUST NOT harm the others. A batch is no transaction: a store may
//! carry out a part of it, if it answers each entry truly. The engine sends batches of 1 to 500 entries; how many at most
//! depends on the step.
//!
//! # Errors
//! | kind | meaning for an entry | the engine |
//! | --- | --- | --- |
//! | `Unavailable` | it was certainly not executed, and never will be | retries within the caller's time |
//! | `Unknown` | it may have been executed, or may be later ([C3]) | the same; the end of what is in doubt then leaves a tombstone |
//! | `Timeout` | as `Unavailable`; a step has no use for it | the same |
//! | any other | a retry would not help | returns it to the caller |
//!
//! A step that does not know the outcome MUST say `Unknown`. A missing answer counts as `Unknown`. No caller waits for
//! releases, cancels and refunds that a `Drop` queued: the engine retries them after every error except `InvalidArgument`.
//!
//! # Time limit of a request
//! [`Steps::request_timeout`] is the limit of every request; of a request that carries leases, a third of the shortest lease,
//! if that is less ([C17]); of an `acquire`, whose callers have limits of their own, of the longest. A step SHOULD keep it by itself, since it alone knows whether its request was sent: the engine
//! drops it 50 ms later, at any await point, and answers its entries with `Unknown`. So a step MUST bear to be dropped. A
//! [`WakeSource`] has no limit.
//!
//! # Panics
//! After a panic in a step, a wake source or a chore, the engine closes the store object: its guards are lost, and every
//! later call ends with `Closed` ([C27]). A step that can go on after an error of its own returns `Unknown`.
//!
//! # Lanes
//! Entries of one batch are of one lane. Batches of different lanes leave independently of each other, so that a server that
//! is slow or silent delays its own names alone ([C27]): a store whose lanes are different servers says so by
//! [`PermitSteps::lane`].
//!
//! [C7]: crate::contract#c7
//! [C3]: crate::contract#c3
//! [C17]: crate::contract#c17
//! [C27]: crate::contract#c27

mod bloom;
mod chore;
mod exchange;
mod groups;
mod hints;
mod inspection;
pub mod limit_batch;
mod limits;
mod listing;
mod parameter_check;
mod permits;
mod wake;

use std::sync::Arc;
use std::time::Duration;

pub use self::bloom::{
    BloomAsk, BloomCall, BloomSteps, CHUNK_BYTES, CLEARED_KEPT, ChunkRead, Known, Life, MAX_POSITIONS, Merge,
    Merged, Opening, Probed, Survey, Surveyed,
};
pub(crate) use self::chore::ReportSink;
pub use self::chore::{Chore, Reports};
pub use self::exchange::{Exchange, Exchanged};
pub use self::groups::{GroupSteps, Look, Looked, MAX_SPLIT, NO_LIMIT, Split};
pub use self::hints::HintBox;
pub use self::inspection::{InspectionPart, Usage, inspect_in_parts};
pub use self::limits::{LimitAsk, LimitCall, LimitSteps, Limited, Refund, RequestId};
pub use self::listing::{List, ListPart, ListSteps, ListedBucket};
pub use self::parameter_check::ParameterCheck;
pub use self::permits::{
    Acquire, Acquired, Attach, Attached, Cancel, Ending, Force, Kept, PermitSteps, Polled, Purpose, Release,
    Renew,
};
pub use self::wake::WakeSource;
use crate::{Error, Kind, Name, Result, Ticket};

/// An object of a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: Name,
}

/// The identity of one store object of one process: the store keeps by it which waiters are live and where their wake-ups go.
/// The backend makes one when it connects, gives it to all steps of that store object, and never uses it again.
pub type ProcessId = Ticket;

/// The answers to a batch, one for each entry, in order.
pub type Answers<T> = Vec<Result<T>>;

/// Answers each of `count` entries with the error of the whole request.
#[must_use]
pub fn refused<T>(count: usize, error: &Error) -> Answers<T> {
    (0..count).map(|_| Err(error.replicate())).collect()
}

/// All steps of a store, over one connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Steps {
    /// The steps of mutexes and semaphores.
    pub permits: Arc<dyn PermitSteps>,
    /// The steps of wait groups, if the store offers them.
    pub groups: Option<Arc<dyn GroupSteps>>,
    /// The steps of limiters, if the store offers them.
    pub limits: Option<Arc<dyn LimitSteps>>,
    /// The steps of Bloom filters, if the store offers them.
    pub bloom: Option<Arc<dyn BloomSteps>>,
    /// The step that lists names, if the store offers it.
    pub listing: Option<Arc<dyn ListSteps>>,
    /// Time limit of one request, 1 ms to 1 h ([C17]): see the head of this page.
    ///
    /// [C17]: crate::contract#c17
    pub request_timeout: Duration,
}

impl Steps {
    /// Makes the steps of a store that has mutexes and semaphores; set the fields of the other kinds.
    #[must_use]
    pub fn new(permits: Arc<dyn PermitSteps>, request_timeout: Duration) -> Self {
        Self { permits, groups: None, limits: None, bloom: None, listing: None, request_timeout }
    }
}
