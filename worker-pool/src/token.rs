//! The fencing token of the job that runs.

use stanchion_core::FencingToken;

tokio::task_local! {
    static TOKEN: FencingToken;
}

/// The fencing token of the permit that the job calling this runs with; `None` outside a job, and in a pool without a
/// [cap](crate::PoolBuilder::cluster_cap).
///
/// It is larger than that of every earlier permit of the same name, so a resource that refuses a smaller one than it has
/// seen is safe from a job that lost its permit and does not know yet. It is there in the job's own future and in a
/// blocking job's closure, not in tasks that the job spawns.
///
/// # Examples
/// ```
/// use stanchion_core::{SemaphoreOptions, Store};
/// use stanchion_pool::WorkerPool;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
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
    TOKEN.try_with(|token| *token).ok()
}

/// Runs something with that token, if there is one.
pub(crate) fn with_token<R>(token: Option<FencingToken>, run: impl FnOnce() -> R) -> R {
    match token {
        Some(token) => TOKEN.sync_scope(token, run),
        None => run(),
    }
}
