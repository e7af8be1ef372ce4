//! The user's side: the traits of stores and of their objects, the guards, and the options and
//! answers of calls.

mod bloom_filter;
mod bloom_options;
mod capabilities;
mod decision;
mod detached;
mod fence;
pub(crate) mod guard;
mod inspect;
mod limiter;
mod limiter_options;
pub(crate) mod listing;
mod mutex;
mod mutex_ext;
pub(crate) mod options;
mod quota_policy;
mod semaphore;
mod stats;
mod store;
mod store_ext;
mod wait_group;

pub use self::bloom_filter::BloomFilter;
pub use self::bloom_options::BloomOptions;
pub use self::capabilities::{Capabilities, MutexMode};
pub use self::decision::{DecidedBy, Decision};
pub use self::detached::Detached;
pub use self::fence::Fenced;
pub use self::guard::{
    Guard, GuardKind, Hold, HoldBackend, Member, MutexGuard, OfMutex, OfSemaphore, OfWaitGroup, Permit,
    Reservation, ReservationBackend,
};
pub use self::inspect::{Holder, Inspection};
pub use self::limiter::Limiter;
pub use self::limiter_options::{LimiterOptions, OutagePolicy};
pub use self::listing::{Cursor, ListOptions, ListPage, Listed, Pages};
pub use self::mutex::Mutex;
pub use self::mutex_ext::MutexExt;
pub use self::options::{
    HoldOptions, MutexOptions, OnMismatch, SemaphoreOptions, WaitGroupOptions, check_count, check_items,
    check_members, check_times,
};
pub use self::quota_policy::QuotaPolicy;
pub use self::semaphore::Semaphore;
pub use self::stats::Stats;
pub use self::store::Store;
pub use self::store_ext::StoreExt;
pub use self::wait_group::{Outcome, WaitGroup};
