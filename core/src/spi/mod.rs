//! The interface for authors of lease stores: requests of one round trip each, sent in batches.
//!
//! A store implements [`Steps`]: one method, which carries out a batch of [`Request`]s and returns
//! a [`Response`] for each. What a request means stands at the request. The same shape goes through
//! batching, retries, renewals and containment, and through whatever a test puts around a store.
//!
//! # Rules for every request
//! - It MUST be atomic: another request sees all of what it did to a name, or nothing of it.
//! - It MUST be idempotent: a **retry** is the same request with the same tickets, sent because the
//!   answer to the first one did not come. The first one may have been executed, may have been
//!   lost, or may still be under way and come after the retry. A retry MUST be answered as the
//!   first one was and MUST NOT do anything twice, except for leases: a retry sets the lease anew,
//!   since the engine counts the lease from the last request.
//! - It MUST NOT wait for other callers, and MUST NOT retry, renew or sleep: the engine does all
//!   that. It may wait for the lock of a record, within its time limit.
//! - It MUST use the store's clock only, and MUST read it after any lock wait ([C7]), once for all
//!   entries that are carried out together. The clock is a wall clock, the same for all clients of
//!   the store; where it is set back, leases last longer, and tokens MUST grow all the same. No
//!   time of a client is ever sent: a lease is a length, and so is every time that a request about
//!   a mutex, a semaphore or a wait group is answered with.
//!
//! # Batches
//! A store carries the entries of a batch out one after the other, as if each had been sent alone,
//! and MUST answer each, in order, with as many answers as entries. An entry sees what the entries
//! before it did: of two requests for one mutex the first is granted. Releases SHOULD come first,
//! whatever their places, so that what they free is there for the acquires of the batch. One ticket
//! may stand in a batch twice. An entry that fails MUST NOT harm the others. A batch is no
//! transaction: a store may carry out a part of it, if it answers each entry truly. The engine
//! sends batches of 1 to 500 entries of one lane. A store that makes a request of its own for each
//! kind splits a batch by [`by`], and reads its parts by [`contents`]. Requests that no caller
//! shares with others, such as an operator's, the engine sends alone, in a batch of one.
//!
//! # Lanes
//! Entries of one batch are of one [`Lane`]. Batches of different lanes leave independently of each
//! other, so that a server that is slow or silent delays its own names alone ([C27]). A caller's
//! lane has one batch under way; while that takes less than 25 ms, further requests gather. An
//! object MUST keep the lane of its acquires and releases, so that they keep their order.
//!
//! # Errors
//! | kind | meaning for an entry | the engine |
//! | --- | --- | --- |
//! | `Unavailable` | it was certainly not executed, and never will be | retries within the caller's time |
//! | `Unknown` | it may have been executed, or may be later ([C3]) | the same; the end of what is in doubt then leaves a tombstone |
//! | `Timeout` | as `Unavailable`; a store has no use for it | the same |
//! | any other | a retry would not help | returns it to the caller |
//!
//! A store that does not know the outcome MUST say `Unknown`. A missing answer counts as `Unknown`.
//! No caller waits for releases, cancels and refunds that a `Drop` queued: the engine retries them
//! after every error except `InvalidArgument`.
//!
//! # Time limit
//! A batch comes with the time until which it is to be answered: [`Steps::request_timeout`] from
//! its sending, or a third of a lease if that is less ([C17]), or what its caller has left. A store
//! SHOULD keep it by itself, since it alone knows whether its request was sent: the engine drops it
//! 50 ms later, at any await point, and answers its entries with `Unknown`. So a store MUST bear
//! that its futures are dropped. A [`WakeSource`] has no limit.
//!
//! # Panics
//! After a panic in a store, a wake source or a chore, the engine closes the store object: its
//! guards are lost, and every later call ends with `Closed` ([C27]). A store that can go on after
//! an error of its own returns `Unknown`.
//!
//! [C7]: crate::contract#c7
//! [C3]: crate::contract#c3
//! [C17]: crate::contract#c17
//! [C27]: crate::contract#c27

mod bloom;
mod bytes;
mod chore;
mod gather;
mod groups;
mod hints;
mod inspection;
mod lane;
pub mod limit_batch;
mod limits;
mod listing;
mod parameter_check;
mod permits;
mod request;
mod steps;
mod wake;

pub use self::bloom::{
    CHUNK_BYTES, CLEARED_KEPT, ChunkRead, Clear, FilterRecord, FilterState, MAX_POSITIONS, Merge, Merged,
    Opening, Probe, ProbeItems, Probed, Read, Survey, Surveyed,
};
pub(crate) use self::chore::ReportSink;
pub use self::chore::{Chore, Reports};
pub(crate) use self::gather::short;
pub use self::gather::{by, contents, gather, responses};
pub use self::groups::{Look, Looked, MAX_SPLIT, NO_LIMIT, Split};
pub use self::hints::HintBox;
pub use self::inspection::{InspectionPart, Usage, inspect_in_parts};
pub use self::lane::Lane;
pub use self::limits::{Decide, LimitAsk, Limited, Refund, RequestId, Reset, SetQuota};
pub use self::listing::{List, ListPart, ListedBucket};
pub use self::parameter_check::ParameterCheck;
pub use self::permits::{
    Acquire, Acquired, Attach, Attached, Cancel, Ending, Force, ForceRelease, Inspect, KeepPlaces, Kept,
    Ping, Poll, Polled, Purpose, Release, Renew, Resize, Total,
};
pub(crate) use self::request::MAXIMUM_BATCH;
pub use self::request::{Ask, Request, RequestKind, Response};
pub use self::steps::{Steps, StepsExt};
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

/// The identity of one store object of one process: the store keeps by it which waiters are live
/// and where their wake-ups go. The backend makes one when it connects, gives it to all of that
/// store object's steps, and never uses it again.
pub type ProcessId = Ticket;

/// The answers to a batch, one for each entry, in order.
pub type Answers<T> = Vec<Result<T>>;

/// Answers each of `count` entries with the error of the whole request.
#[must_use]
pub fn refused<T>(count: usize, error: &Error) -> Answers<T> {
    (0..count).map(|_| Err(error.replicate())).collect()
}
