//! Options of a pool.

use std::sync::Arc;

use stanchion_core::{Limiter, Semaphore};
use tokio::runtime::Handle;

use crate::cluster_limits::ClusterLimits;
use crate::shared::Shared;
use crate::worker::start_workers;
use crate::{ConfigError, MAX_WORKERS, WorkerPool};

const DEFAULT_QUEUE: usize = 1_024;

/// Builds a [`WorkerPool`].
#[derive(Clone, Debug)]
#[must_use]
pub struct PoolBuilder {
    name: String,
    workers: usize,
    queue: usize,
    cap: Option<Arc<dyn Semaphore>>,
    rate: Option<Arc<dyn Limiter>>,
    runtime: Option<Handle>,
}

impl PoolBuilder {
    pub(crate) fn new() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Self { name: "pool".to_owned(), workers, queue: DEFAULT_QUEUE, cap: None, rate: None, runtime: None }
    }

    /// Sets how many jobs run at once: 1 to [`MAX_WORKERS`]. Default: the number of cores that the
    /// process can use.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Sets the maximum number of jobs that wait for a worker: 1 or more. Default 1,024. A place
    /// takes memory once it is used.
    pub fn queue(mut self, places: usize) -> Self {
        self.queue = places;
        self
    }

    /// Sets the pool's name in spans and events. Default `pool`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Lets a job begin only with a permit of this semaphore, which it holds to its end. All pools
    /// that use the same semaphore name on the same store share its limit, in every process. A job
    /// whose permit is lost is stopped ([`JobError::LostPermit`](crate::JobError::LostPermit)).
    ///
    /// While the store fails, jobs wait in the queue. The pool asks again after a pause of 50 ms to
    /// 5 s, without end. Each error is counted
    /// ([`PoolStats::store_errors`](crate::PoolStats::store_errors)) and is a `tracing` event.
    /// [`shutdown`](WorkerPool::shutdown) ends the wait. An error that waiting cannot mend, of
    /// which there is an event every 10 s at most, ends the job instead
    /// ([`JobError::Refused`](crate::JobError::Refused)): `Closed`, `Unauthorized`,
    /// `InvalidArgument`, `ConfigMismatch`, `UnsafeStore`, `Unsupported` or `StateLost`.
    pub fn cluster_cap(mut self, cap: Arc<dyn Semaphore>) -> Self {
        self.cap = Some(cap);
        self
    }

    /// Lets a job begin only when this limiter has admitted a cost of 1. Errors are handled as for
    /// [`cluster_cap`](Self::cluster_cap).
    ///
    /// With a cap, the permit comes after the rate: no permit is held while a job waits for the
    /// rate. So a job that had to wait for a permit begins later than it was admitted. In a window
    /// of `t` seconds at most `burst + rate·t` jobs begin, and besides as many as the pools have
    /// workers together, whose jobs were admitted before and waited for permits.
    ///
    /// # Spent cost
    /// A cost is spent once it is admitted. It is lost if no job begins on it, because meanwhile
    /// the pool was paused, resized or ended, or its last queued job was cancelled. Then fewer jobs
    /// begin than the rate allows. An error of the store while the worker waits for a permit costs
    /// nothing more; one that ends the job leaves the cost to the worker's next job. A worker that
    /// stops waiting before the limiter admits it cancels its reservation.
    pub fn rate(mut self, rate: Arc<dyn Limiter>) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Sets the runtime of the workers. Default: the runtime in which the pool is built. Its timers
    /// must be enabled.
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// [`ConfigError`] if there are no workers or too many, no place in the queue, or no runtime.
    pub fn build(self) -> Result<WorkerPool, ConfigError> {
        check_workers(self.workers)?;
        if self.queue == 0 {
            return Err(ConfigError::NoQueue);
        }
        let runtime = match self.runtime {
            Some(runtime) => runtime,
            None => Handle::try_current().map_err(|_| ConfigError::NoRuntime)?,
        };
        let shared = Shared::new(self.name, self.queue, ClusterLimits::new(self.cap, self.rate), runtime);
        start_workers(&shared, shared.with(|kernel, wakes| kernel.resize(self.workers, wakes)));
        Ok(WorkerPool::over(shared))
    }
}

pub(crate) fn check_workers(workers: usize) -> Result<(), ConfigError> {
    match workers {
        0 => Err(ConfigError::NoWorkers),
        1..=MAX_WORKERS => Ok(()),
        asked => Err(ConfigError::TooManyWorkers { asked }),
    }
}
