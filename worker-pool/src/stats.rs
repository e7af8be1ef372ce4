//! Counters.

use crate::kernel::Mode;
use crate::shared::PoolKernel;

/// What a pool does, read at one instant, and what it has done since it was built.
///
/// At every instant `submitted` is the sum of `queued`, `running`, `done`, `panicked`, `cancelled`, `lost_permit`,
/// `not_run` and `aborted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// Workers that are there; more than `wanted` while some finish their last job.
    pub workers: usize,
    /// Workers that were asked for.
    pub wanted: usize,
    /// Places in the queue.
    pub capacity: usize,
    /// Jobs that wait for a worker, a permit or their turn.
    pub queued: usize,
    /// Jobs that run.
    pub running: usize,
    /// Workers that wait for a permit, or for their turn at the rate.
    pub seeking: usize,
    /// Callers that wait for room.
    pub waiting: usize,
    /// Whether it is paused.
    pub paused: bool,
    /// Whether it is drained or shut down, or will be.
    pub closed: bool,
    /// Jobs that were ever queued.
    pub submitted: u64,
    /// Times that `try_submit` found no room.
    pub refused: u64,
    /// Jobs that finished with an output.
    pub done: u64,
    /// Jobs that panicked.
    pub panicked: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Jobs that lost their permit.
    pub lost_permit: u64,
    /// Jobs that never ran because the pool ended.
    pub not_run: u64,
    /// Jobs that were aborted.
    pub aborted: u64,
    /// Errors of the store, when asked for a permit or a turn.
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
            not_run: counts.not_run,
            aborted: counts.aborted,
            store_errors: counts.store_errors,
        }
    }
}
