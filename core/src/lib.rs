//! Traits, guards, engine and exact arithmetic of the `stanchion` coordination library.
//!
//! Users depend on the facade `stanchion`; this crate is for authors of stores.

#[cfg(feature = "bloom")]
pub mod bloom;
pub mod clock;
pub mod contract;
pub mod engine;
pub mod limiter;
pub mod steps;

mod capabilities;
mod credentials;
mod detached;
mod error;
mod fence;
mod guard;
mod inspect;
mod lease;
mod name;
mod options;
mod refusals;
mod sync;
mod ticket;
mod traits;

pub use capabilities::{Capabilities, MutexMode};
pub use credentials::{Credentials, CredentialsProvider};
pub use detached::Detached;
pub use error::{Error, ErrorKind, Result};
pub use fence::Fenced;
pub use guard::{Hold, HoldBackend, Member, MutexGuard, Permit, Reservation, ReservationBackend};
pub use inspect::{Holder, Inspection};
pub use lease::Ttl;
pub use limiter::Quota;
pub use name::{Kind, Name};
#[cfg(feature = "bloom")]
pub use options::check_items;
pub use options::{
    HoldOptions, MutexOptions, OnMismatch, SemaphoreOptions, WaitGroupOptions, check_count, check_members,
    check_times,
};
pub use ticket::{FencingToken, Ticket};
#[cfg(feature = "bloom")]
pub use traits::{BloomFilter, BloomOptions};
pub use traits::{
    DecidedBy, Decision, Limiter, LimiterOptions, Mutex, OutagePolicy, Outcome, Semaphore, Store, WaitGroup,
};
