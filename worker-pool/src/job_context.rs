//! The context of a running job: its pool, and its fencing token.

use stanchion_core::FencingToken;

use crate::shared::PoolId;

tokio::task_local! {
    static CURRENT: JobContext;
}

/// The pool of the job that runs here, and the job's fencing token. It is set while the job's
/// future is polled, and while the closure of a blocking job runs; not in tasks and threads that
/// the job starts.
#[derive(Clone, Copy)]
pub(crate) struct JobContext {
    pub(crate) pool: PoolId,
    pub(crate) token: Option<FencingToken>,
}

impl JobContext {
    /// Returns the context of the calling job; `None` outside a job.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(|context| *context).ok()
    }

    /// Runs a closure with this context as the current one.
    pub(crate) fn enter<R>(self, run: impl FnOnce() -> R) -> R {
        CURRENT.sync_scope(self, run)
    }
}

/// Returns the fencing token of the calling job's permit; `None` outside a job, and in a pool
/// without a [cap](crate::PoolBuilder::cluster_cap).
///
/// The token is larger than that of every earlier permit of the same name. A resource that refuses
/// a token smaller than the largest it has seen is therefore safe from a job that lost its permit
/// and does not know yet. The token is available in the job's own future and in a blocking job's
/// closure, not in tasks that the job spawns.
///
/// # Examples
/// ```
/// use stanchion_core::{SemaphoreOptions, Store};
/// use stanchion_pool::WorkerPool;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let store = stanchion_memory::MemoryStore::new();
/// let one = store.semaphore("ledger", SemaphoreOptions::new(1))?;
/// let pool = WorkerPool::builder().workers(1).queue(10).cluster_cap(one).build()?;
/// let first = pool.submit(async { stanchion_pool::fencing_token() }).await?.await?;
/// let second = pool.submit_blocking(stanchion_pool::fencing_token).await?.await?;
/// assert!(first.is_some() && first < second);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn fencing_token() -> Option<FencingToken> {
    JobContext::current()?.token
}
