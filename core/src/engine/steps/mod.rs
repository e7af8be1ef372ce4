//! What the author of a lease store writes: steps of one round trip each.
//!
//! Every step MUST be atomic, MUST be idempotent by ticket, MUST NOT wait for other callers, and MUST use the store's
//! clock only, read after any lock wait (C7). It takes a batch, carries its entries out one after the other, and answers
//! each on its own, in order: an entry that fails does not harm the others. The error of an entry is `Unavailable` if it
//! was certainly not executed and `Unknown` if it may have been (C3); the engine retries with the same tickets.

#[cfg(feature = "bloom")]
mod bloom;
mod chore;
pub mod flight;
mod groups;
mod limits;
mod permits;
mod wake;

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "bloom")]
pub use self::bloom::{
    BloomAsk, BloomCall, BloomSteps, CHUNK_BYTES, CLEARED_KEPT, ChunkRead, Known, Life, MAX_POSITIONS, Merge,
    Merged, Opening, Probed, Survey, Surveyed,
};
pub use self::chore::{Chore, Reports};
pub use self::groups::{GroupSteps, Look, Looked, NO_LIMIT, Split};
pub use self::limits::{FlightId, LimitAsk, LimitCall, LimitSteps, Limited, QuotaCheck, Refund};
pub use self::permits::{
    Acquire, Acquired, Attach, Attached, Cancel, Ending, Force, Kept, LimitCheck, PermitSteps, Polled,
    Release, Renew,
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

/// The identity of one store object of one process: whose waiters are live, and where their wake-ups go.
pub type ProcessId = Ticket;

/// The answers to a batch, one for each entry, in order.
pub type Answers<T> = Vec<Result<T>>;

/// Answers each of `count` entries with the error of the whole request.
#[must_use]
pub fn refused<T>(count: usize, error: &Error) -> Answers<T> {
    (0..count).map(|_| Err(error.replicate())).collect()
}

/// All steps of a store over one connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Steps {
    /// Mutexes and semaphores.
    pub permits: Arc<dyn PermitSteps>,
    /// Wait groups, where the store offers them.
    pub groups: Option<Arc<dyn GroupSteps>>,
    /// Limiters, where the store offers them.
    pub limits: Option<Arc<dyn LimitSteps>>,
    /// Bloom filters, where the store offers them.
    #[cfg(feature = "bloom")]
    pub bloom: Option<Arc<dyn BloomSteps>>,
    /// Time limit of one request (C17).
    pub request_timeout: Duration,
}

impl Steps {
    /// The steps of mutexes and semaphores, and the time limit of one request; set the fields of what else there is.
    #[must_use]
    pub fn new(permits: Arc<dyn PermitSteps>, request_timeout: Duration) -> Self {
        Self {
            permits,
            groups: None,
            limits: None,
            #[cfg(feature = "bloom")]
            bloom: None,
            request_timeout,
        }
    }
}
