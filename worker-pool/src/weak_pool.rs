//! A handle that does not keep its pool open.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::WorkerPool;
use crate::owner::Owner;

/// A handle of a pool that does not keep the pool open, from [`WorkerPool::downgrade`].
///
/// It is for jobs that use their own pool. A job that holds a clone of the [`WorkerPool`] keeps the
/// pool open for as long as it is queued, and a paused pool whose queue holds the last clones stays
/// for ever: it begins no job, and so no clone is dropped.
///
/// # Examples
/// A job that queues a further job, as long as the program uses the pool:
/// ```
/// use stanchion_pool::{JobError, WorkerPool};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let pool = WorkerPool::builder().workers(1).queue(10).build()?;
/// pool.pause();
/// let weak = pool.downgrade();
/// let job = pool
///     .submit(async move {
///         if let Some(pool) = weak.upgrade() {
///             let _ = pool.try_submit(async { println!("the next step") });
///         }
///     })
///     .await?;
/// drop(pool); // the last handle: the pool ends, although it is paused
/// assert!(matches!(job.await, Err(JobError::NotRun)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct WeakPool {
    owner: Weak<Owner>,
}

impl WeakPool {
    pub(crate) fn new(owner: &Arc<Owner>) -> Self {
        Self { owner: Arc::downgrade(owner) }
    }

    /// Returns a handle of the pool, which keeps it open; `None` once the last such handle was
    /// dropped. A pool that is drained or shut down is returned as long as it has a handle.
    #[must_use]
    pub fn upgrade(&self) -> Option<WorkerPool> {
        self.owner.upgrade().map(WorkerPool::of)
    }
}

impl fmt::Debug for WeakPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakPool").field("open", &(self.owner.strong_count() > 0)).finish()
    }
}
