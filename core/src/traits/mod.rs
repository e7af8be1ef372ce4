//! The traits that users hold: stores and what they make.

#[cfg(feature = "bloom")]
mod bloom_filter;
#[cfg(feature = "bloom")]
mod bloom_options;
mod decision;
mod limiter;
mod limiter_options;
mod mutex;
mod mutex_ext;
mod semaphore;
mod store;
mod store_ext;
mod wait_group;

#[cfg(feature = "bloom")]
pub use bloom_filter::BloomFilter;
#[cfg(feature = "bloom")]
pub use bloom_options::BloomOptions;
pub use decision::{DecidedBy, Decision};
pub use limiter::Limiter;
pub use limiter_options::{LimiterOptions, OutagePolicy};
pub use mutex::Mutex;
pub use mutex_ext::MutexExt;
pub use semaphore::Semaphore;
pub use store::Store;
pub use store_ext::StoreExt;
pub use wait_group::{Outcome, WaitGroup};
