//! The store: what makes the others.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

#[cfg(feature = "bloom")]
use super::{BloomFilter, BloomOptions};
use super::{Limiter, LimiterOptions, Mutex, Semaphore, WaitGroup};
use crate::{Capabilities, MutexOptions, Result, SemaphoreOptions, WaitGroupOptions};
#[cfg(feature = "bloom")]
use crate::{Error, ErrorKind};

/// Where the state lives: this process, Redis, Postgres.
///
/// Making an object costs no I/O: bad names and options fail here with `InvalidArgument` (C19), everything else at
/// the object's first operation. Objects of one name share their state, whichever store object of whichever process
/// made them; kinds do not see each other.
#[async_trait]
pub trait Store: Debug + Send + Sync {
    /// A mutex of that name.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad name or option; `Unsupported`; `Closed`.
    fn mutex(&self, name: &str, options: MutexOptions) -> Result<Arc<dyn Mutex>>;

    /// A semaphore of that name.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex).
    fn semaphore(&self, name: &str, options: SemaphoreOptions) -> Result<Arc<dyn Semaphore>>;

    /// A wait group of that name.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex).
    fn wait_group(&self, name: &str, options: WaitGroupOptions) -> Result<Arc<dyn WaitGroup>>;

    /// A limiter of that name.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex); also for a quota that cannot be exact (L11).
    fn limiter(&self, name: &str, options: LimiterOptions) -> Result<Arc<dyn Limiter>>;

    /// A Bloom filter of that name. A store that has none need not write this method.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex); also for a capacity, rate or time to live out of its range.
    #[cfg(feature = "bloom")]
    fn bloom_filter(&self, name: &str, options: BloomOptions) -> Result<Arc<dyn BloomFilter>> {
        options.check().and_then(|()| crate::Name::new(name))?;
        let error = Error::new(ErrorKind::Unsupported, "this store does not offer Bloom filters");
        Err(error.context("bloom_filter", self.capabilities().store, name))
    }

    /// What this store offers.
    fn capabilities(&self) -> Capabilities;

    /// Asks the store for a sign of life: one round trip.
    ///
    /// # Errors
    /// `Unavailable`, `Unknown`, `Unauthorized` or `Closed`.
    async fn ping(&self) -> Result<()>;

    /// Refuses new calls with `Closed`, makes live guards lost, then releases what they held and drains the release
    /// queue (C12).
    ///
    /// # Errors
    /// `Timeout` if the store did not take all releases within 5 s; the leases free the rest.
    ///
    /// # Cancel safety
    /// A dropped call has closed the store object; the draining goes on without it.
    async fn close(&self) -> Result<()>;
}
