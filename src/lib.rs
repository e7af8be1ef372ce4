#![doc = include_str!("../README.md")]
//!
//! # Where to look
//!
//! - [`connect`] opens a store by its URL; [`Store`] opens all other objects by name.
//! - [`Mutex`], [`Semaphore`], [`WaitGroup`] and [`Limiter`] document their guarantees and
//!   limitations. They are dyn-safe, so they can be passed around as `Arc<dyn Mutex>`, swapped and
//!   mocked. The same applies to `BloomFilter`, behind the feature `bloom`.
//! - [`MutexGuard`], [`Permit`], [`Member`] and [`Reservation`] are the guards that callers hold.
//! - [`Fenced`] is the resource's side of a fencing token, for resources in this process.
//! - [`Error`] and [`ErrorKind`] describe errors, in the same way on every store.
//! - The modules `memory`, `redis` and `postgres` are the stores' own crates, with builders that
//!   offer more than a URL does; each stands behind the Cargo feature of its name.
//!
//! Codes such as `C4` or `M2` in the documentation name the clause of the [contract] behind the
//! sentence; the conformance suite has tests whose names begin with that code.
#![cfg_attr(feature = "bloom", doc = include_str!("bloom.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod connect;

#[cfg(feature = "blocking")]
pub mod blocking;
pub mod guide;

pub use connect::connect;
#[doc(inline)]
pub use stanchion_core::contract;
pub use stanchion_core::limiter::ExactQuota;
pub use stanchion_core::{
    Capabilities, Cursor, DecidedBy, Decision, Detached, Election, ElectionHandle, ElectionObserver,
    ElectionOptions, Error, ErrorKind, Fenced, FencingToken, GrantId, Guard, GuardKind, HoldOptions, Holder,
    Inspection, JobResult, Kind, Leader, LeaderChanges, Limiter, LimiterOptions, ListOptions, ListPage,
    Listed, Member, Mutex, MutexExt, MutexGuard, MutexMode, MutexOptions, Name, OfMutex, OfSemaphore,
    OfWaitGroup, OnMismatch, OutagePolicy, Outcome, Pages, PeriodicJob, Permit, Quota, QuotaPolicy,
    Reservation, Result, Semaphore, SemaphoreOptions, Stats, Store, StoreExt, Ticket, Ttl, WaitGroup,
    WaitGroupOptions,
};

/// The interface for authors of stores: the steps, the engine that drives them, and the parts of
/// guards.
///
/// See [writing a store](guide::writing_a_store).
pub mod spi {
    pub use stanchion_core::observe::{audit, events, metering::Meter};
    pub use stanchion_core::spi::*;
    pub use stanchion_core::{
        Hold, HoldBackend, ReservationBackend, bloom, check_count, check_items, check_members, check_times,
        clock, connect, engine, limiter, runtime,
    };
}

#[cfg(feature = "bloom")]
pub use stanchion_core::{BloomFilter, BloomOptions, bloom};

#[cfg(feature = "metrics")]
#[doc(inline)]
pub use stanchion_core::observe::metering;
#[cfg(feature = "memory")]
#[doc(inline)]
pub use stanchion_memory as memory;
#[cfg(feature = "postgres")]
#[doc(inline)]
pub use stanchion_postgres as postgres;
#[cfg(feature = "redis")]
#[doc(inline)]
pub use stanchion_redis as redis;
