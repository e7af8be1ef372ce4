//! Options of a pool.

use std::sync::Arc;

use stanchion_core::{Limiter, Semaphore};
use tokio::runtime::Handle;

use crate::gate::Gate;
use crate::shared::Shared;
use crate::{ConfigError, WorkerPool};

/// The most workers that a pool can have.
pub const MAX_WORKERS: usize = 65_536;

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

    /// How many jobs run at once: 1 to [`MAX_WORKERS`]. Default: as many as the process can use cores.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// How many jobs wait for a worker, at most: 1 or more. Default 1,024. Places take memory once they are used.
    pub fn queue(mut self, places: usize) -> Self {
        self.queue = places;
        self
    }

    /// How the pool is called in spans and events. Default `pool`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// A job begins only with a permit of this semaphore, and holds it to its end. All pools that are given the same
    /// name on the same store share its limit, in whatever process they are. A job whose permit is lost is stopped
    /// ([`JobError::LostPermit`](crate::JobError::LostPermit)).
    ///
    /// While the store fails jobs wait in the queue, and the pool asks again after a pause of 50 ms to 5 s, without end;
    /// each error is counted ([`PoolStats::store_errors`](crate::PoolStats::store_errors)) and is a `tracing` event.
    /// [`shutdown`](WorkerPool::shutdown) ends the wait.
    pub fn cluster_cap(mut self, cap: Arc<dyn Semaphore>) -> Self {
        self.cap = Some(cap);
        self
    }

    /// A job begins only when this limiter admits a cost of 1, after it has its permit, where there is a cap. A turn that
    /// no job can use any more, because it was cancelled meanwhile, is not given back. Errors as for
    /// [`cluster_cap`](Self::cluster_cap).
    pub fn rate(mut self, rate: Arc<dyn Limiter>) -> Self {
        self.rate = Some(rate);
        self
    }

    /// The runtime of the workers. Default: the one that builds the pool. Its timers must be enabled.
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// [`ConfigError`], if there are no workers or too many, no place in the queue, or no runtime.
    pub fn build(self) -> Result<WorkerPool, ConfigError> {
        check_workers(self.workers)?;
        if self.queue == 0 {
            return Err(ConfigError::NoQueue);
        }
        let runtime = match self.runtime {
            Some(runtime) => runtime,
            None => Handle::try_current().map_err(|_| ConfigError::NoRuntime)?,
        };
        let shared = Shared::new(self.name, self.queue, Gate::new(self.cap, self.rate), runtime);
        shared.start(shared.with(|kernel, wakes| kernel.resize(self.workers, wakes)));
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
