//! A handle that adds jobs to a group.

use std::fmt;
use std::sync::Arc;

use crate::group_state::GroupState;
use crate::{Job, SubmitError};

/// A handle that submits jobs to a [`JobGroup`](crate::JobGroup), for tasks besides the one that
/// takes the results. A clone is another submitter of the same group.
///
/// While a submitter lives, the group waits for more jobs: [`next`](crate::JobGroup::next),
/// [`join_next`](crate::JobGroup::join_next) and [`join`](crate::JobGroup::join) do not end before
/// all submitters are dropped or a job fails. So drop a submitter once it has submitted its last
/// job, and keep none in the task that takes the results.
///
/// It does not keep the pool open.
///
/// # Drop
/// Dropping a submitter leaves its jobs in the group.
///
/// # Examples
/// ```
/// use stanchion_pool::WorkerPool;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let pool = WorkerPool::builder().workers(4).queue(10).build()?;
/// let mut group = pool.group::<u32, std::io::Error>();
/// for first in [0, 100] {
///     let submitter = group.submitter();
///     tokio::spawn(async move {
///         for number in first..first + 50 {
///             if submitter.submit(async move { Ok(number) }).await.is_err() {
///                 break; // a job failed, or the group was dropped
///             }
///         }
///     });
/// }
/// let mut sum = 0;
/// while let Some(number) = group.join_next().await {
///     sum += number?;
/// }
/// assert_eq!(sum, (0..50).chain(100..150).sum::<u32>());
/// # Ok(())
/// # }
/// ```
#[must_use = "a group waits for its submitters"]
pub struct GroupSubmitter<T, E> {
    state: Arc<GroupState<T, E>>,
}

impl<T, E> GroupSubmitter<T, E> {
    pub(crate) fn new(state: &Arc<GroupState<T, E>>) -> Self {
        state.add_submitter();
        Self { state: Arc::clone(state) }
    }
}

impl<T, E> GroupSubmitter<T, E>
where
    T: Send + 'static,
    E: Send + 'static,
{
    /// Queues a job of the group, waiting for room as
    /// [`WorkerPool::submit`](crate::WorkerPool::submit) does.
    ///
    /// # Errors
    /// As [`JobGroup::submit`](crate::JobGroup::submit), and
    /// [`Refusal::GroupEnded`](crate::Refusal::GroupEnded) once the group was dropped or joined,
    /// also while the call waits. The error returns the job.
    ///
    /// # Cancel safety
    /// As [`WorkerPool::submit`](crate::WorkerPool::submit).
    pub fn submit<J>(&self, job: J) -> impl Future<Output = Result<(), SubmitError<J>>> + Send
    where
        J: Job<Output = Result<T, E>>,
    {
        self.state.submit(job)
    }
}

impl<T, E> Clone for GroupSubmitter<T, E> {
    fn clone(&self) -> Self {
        Self::new(&self.state)
    }
}

impl<T, E> Drop for GroupSubmitter<T, E> {
    fn drop(&mut self) {
        self.state.remove_submitter();
    }
}

impl<T, E> fmt::Debug for GroupSubmitter<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupSubmitter").field("left", &self.state.left()).finish()
    }
}
