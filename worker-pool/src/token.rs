//! The fencing token of the running job.

use stanchion_core::FencingToken;

tokio::task_local! {
    static TOKEN: FencingToken;
}

/// Returns the fencing token of the calling job's permit; `None` outside a job, and in a pool without a
/// [cap](crate::PoolBuilder::cluster_cap).
///
/// The token is larger than that of every earlier permit of the same name. A resource that refuses a token smaller than
/// the largest it has seen is therefore safe from a job that lost its permit and does not know yet. The token is
/// available in the job's own future and in a blocking job's closure, not in tasks that the job spawns.
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

/// Runs a closure with this token as the current one, if there is a token.
pub(crate) fn with_token<R>(token: Option<FencingToken>, run: impl FnOnce() -> R) -> R {
    match token {
        Some(token) => TOKEN.sync_scope(token, run),
        None => run(),
    }
}
