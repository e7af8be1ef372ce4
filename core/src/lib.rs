//! Traits, guards, engine and exact arithmetic of the `stanchion` coordination library.
//!
//! Users depend on the facade `stanchion`; this crate is for authors of stores.

pub mod audit;
#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(feature = "bloom")]
pub mod bloom;
pub mod clock;
pub mod contract;
pub mod engine;
pub mod events;
pub mod limiter;
pub mod metering;
pub mod steps;

mod capabilities;
mod credentials;
mod detached;
mod election;
mod error;
mod fence;
mod grant_id;
mod guard;
mod inspect;
mod lease;
mod listing;
mod name;
mod options;
mod refusals;
mod stats;
mod sync;
mod ticket;
mod traits;
#[cfg(feature = "serde")]
mod with_serde;

pub use capabilities::{Capabilities, MutexMode};
pub use credentials::{Credentials, CredentialsProvider};
pub use detached::Detached;
pub use election::{
    Election, ElectionHandle, ElectionObserver, ElectionOptions, JobResult, Leader, LeaderChanges,
    PeriodicJob,
};
pub use error::{Error, ErrorKind, Result};
pub use fence::Fenced;
pub use grant_id::GrantId;
pub use guard::{
    Guard, GuardKind, Hold, HoldBackend, Member, MutexGuard, OfMutex, OfSemaphore, OfWaitGroup, Permit,
    Reservation, ReservationBackend,
};
pub use inspect::{Holder, Inspection};
pub use lease::Ttl;
pub use limiter::Quota;
pub use listing::{Cursor, ListOptions, ListPage, Listed, Pages};
pub use name::{Kind, Name};
#[cfg(feature = "bloom")]
pub use options::check_items;
pub use options::{
    HoldOptions, MutexOptions, OnMismatch, SemaphoreOptions, WaitGroupOptions, check_count, check_members,
    check_times,
};
pub use stats::Stats;
pub use ticket::{FencingToken, Ticket};
#[cfg(feature = "bloom")]
pub use traits::{BloomFilter, BloomOptions};
pub use traits::{
    DecidedBy, Decision, Limiter, LimiterOptions, Mutex, MutexExt, OutagePolicy, Outcome, Semaphore, Store,
    StoreExt, WaitGroup,
};
