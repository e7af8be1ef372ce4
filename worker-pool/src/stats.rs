//! Counters of a pool.

use crate::kernel::Mode;
use crate::shared::PoolKernel;

/// The state of a pool at one instant, and its counters since it was built.
///
/// At every instant `submitted` is the sum of `queued`, `running`, `done`, `panicked`, `cancelled`,
/// `lost_permit`, `refused_by_store`, `not_run` and `aborted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// Workers that exist; more than `wanted` while some finish their last job.
    pub workers: usize,
    /// Workers that were configured.
    pub wanted: usize,
    /// Places in the queue.
    pub capacity: usize,
    /// Jobs that wait for a worker, a permit or the rate limiter.
    pub queued: usize,
    /// Jobs that run now.
    pub running: usize,
    /// Workers that wait for a permit or for the rate limiter.
    pub seeking: usize,
    /// Callers that wait for room.
    pub waiting: usize,
    /// Whether the pool is paused.
    pub paused: bool,
    /// Whether the pool is drained or shut down, or is about to be.
    pub closed: bool,
    /// Jobs that were queued since the pool was built.
    pub submitted: u64,
    /// Calls of `try_submit` that found no room.
    pub refused: u64,
    /// Jobs that finished with an output.
    pub done: u64,
    /// Jobs that panicked.
    pub panicked: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Jobs that lost their permit.
    pub lost_permit: u64,
    /// Jobs that never ran because the store refused for good what they need.
    pub refused_by_store: u64,
    /// Jobs that never ran because the pool ended.
    pub not_run: u64,
    /// Jobs that were aborted.
    pub aborted: u64,
    /// Errors of the store, from the semaphore or the limiter.
    pub store_errors: u64,
}

impl PoolStats {
    pub(crate) fn of(kernel: &PoolKernel) -> Self {
        let counts = kernel.counts;
        Self {
            workers: kernel.workers(),
            wanted: kernel.wanted(),
            capacity: kernel.capacity(),
            queued: kernel.queued(),
            running: kernel.running(),
            seeking: kernel.seeking(),
            waiting: kernel.waiting(),
            paused: kernel.is_paused(),
            closed: kernel.mode() != Mode::Open,
            submitted: counts.submitted,
            refused: counts.refused,
            done: counts.done,
            panicked: counts.panicked,
            cancelled: counts.cancelled,
            lost_permit: counts.lost_permit,
            refused_by_store: counts.refused_by_store,
            not_run: counts.not_run,
            aborted: counts.aborted,
            store_errors: counts.store_errors,
        }
    }
}
