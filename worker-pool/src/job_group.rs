//! A group of jobs with one result.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use crate::group_results::Order;
use crate::group_state::GroupState;
use crate::shared::Shared;
use crate::{GroupError, GroupSubmitter, Job, SubmitError};

/// A group of jobs. Results come in the order of submission or in the order in which the jobs end.
/// The first error, in time, cancels all other jobs.
///
/// A job fails when it returns `Err`, and when it ends without a result: it panicked, lost its
/// permit, was never run or was aborted. The group keeps every result until it is taken, so its
/// memory grows with its jobs. Where there are many, take results between submissions, or submit
/// from other tasks with a [`submitter`](Self::submitter).
///
/// # Inside a job
/// The methods that wait for results refuse a caller that is a job of the same pool
/// ([`GroupError::InsideJob`]), unless no result is to come: see
/// [`WorkerPool`](crate::WorkerPool#inside-a-job).
///
/// # Drop
/// Cancels all jobs of the group that have not ended. Its submitters are refused from then on.
///
/// # Examples
/// ```
/// use stanchion_pool::WorkerPool;
///
/// type BoxError = Box<dyn std::error::Error + Send + Sync>;
///
/// async fn square(text: &str) -> Result<u32, BoxError> {
///     let number: u32 = text.parse()?;
///     Ok(number * number)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let pool = WorkerPool::builder().workers(4).queue(10).build()?;
/// let group = pool.group::<u32, BoxError>();
/// for number in ["1", "2", "3"] {
///     group.submit(square(number)).await?;
/// }
/// assert_eq!(group.join().await?, [1, 4, 9]);
/// # Ok(())
/// # }
/// ```
#[must_use = "a dropped group cancels its jobs"]
pub struct JobGroup<T, E> {
    state: Arc<GroupState<T, E>>,
}

impl<T, E> JobGroup<T, E>
where
    T: Send + 'static,
    E: Send + 'static,
{
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { state: Arc::new(GroupState::new(shared)) }
    }

    /// Queues a job of the group, waiting for room as
    /// [`WorkerPool::submit`](crate::WorkerPool::submit) does.
    ///
    /// # Errors
    /// [`Refusal::GroupFailed`](crate::Refusal::GroupFailed) once a job of the group has failed,
    /// also while the call waits; [`Refusal::Closed`](crate::Refusal::Closed);
    /// [`Refusal::InsideJob`](crate::Refusal::InsideJob) if a job of the pool would have to wait
    /// for room. The error returns the job.
    ///
    /// # Cancel safety
    /// As [`WorkerPool::submit`](crate::WorkerPool::submit).
    pub fn submit<J>(&self, job: J) -> impl Future<Output = Result<(), SubmitError<J>>> + Send
    where
        J: Job<Output = Result<T, E>>,
    {
        self.state.submit(job)
    }

    /// Returns a handle with which another task submits jobs to this group. The group waits for
    /// more jobs until it is dropped.
    pub fn submitter(&self) -> GroupSubmitter<T, E> {
        GroupSubmitter::new(&self.state)
    }

    /// Returns the number of queued jobs whose results were not taken yet. After a failure it is 1
    /// until the error is taken, and 0 then.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.left()
    }

    /// Returns whether the results of all queued jobs were taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the next result, in the order of submission; `None` when all were taken and no
    /// [submitter](Self::submitter) is left. Once a job failed, the next result is that job's
    /// error, without waiting for earlier jobs, and after that `None`.
    ///
    /// # Errors
    /// [`GroupError`] of the first job that failed; [`GroupError::InsideJob`].
    ///
    /// # Cancel safety
    /// Safe: a dropped call has taken no result.
    pub async fn next(&mut self) -> Option<Result<T, GroupError<E>>> {
        self.take(Order::Submission).await
    }

    /// Returns the next result, in the order in which the jobs end; `None` when all were taken and
    /// no [submitter](Self::submitter) is left. Results that [`next`](Self::next) took do not come
    /// again. Once a job failed, the next result is that job's error, also before results of jobs
    /// that ended earlier, and after that `None`.
    ///
    /// # Errors
    /// [`GroupError`] of the first job that failed; [`GroupError::InsideJob`].
    ///
    /// # Cancel safety
    /// Safe: a dropped call has taken no result.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use stanchion_pool::WorkerPool;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// let pool = WorkerPool::builder().workers(2).queue(10).build()?;
    /// let mut group = pool.group::<&str, std::io::Error>();
    /// group
    ///     .submit(async {
    ///         tokio::time::sleep(Duration::from_millis(50)).await;
    ///         Ok("slow")
    ///     })
    ///     .await?;
    /// group.submit(async { Ok("fast") }).await?;
    /// while let Some(result) = group.join_next().await {
    ///     println!("{}", result?); // "fast", then "slow"
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn join_next(&mut self) -> Option<Result<T, GroupError<E>>> {
        self.take(Order::Completion).await
    }

    /// Waits for all results that were not taken yet, in the order of submission, and for the
    /// results of the jobs that [submitters](Self::submitter) add until the last submitter is
    /// dropped.
    ///
    /// # Errors
    /// [`GroupError`] of the first job that failed; the other jobs are cancelled.
    /// [`GroupError::InsideJob`]: the group is dropped, which cancels its jobs.
    ///
    /// # Cancel safety
    /// A dropped call drops the group, which cancels its jobs.
    pub async fn join(mut self) -> Result<Vec<T>, GroupError<E>> {
        let mut results = Vec::with_capacity(self.len());
        while let Some(result) = self.next().await {
            results.push(result?);
        }
        Ok(results)
    }

    async fn take(&mut self, order: Order) -> Option<Result<T, GroupError<E>>> {
        poll_fn(|cx| self.state.poll_take(order, cx)).await
    }
}

impl<T, E> Drop for JobGroup<T, E> {
    fn drop(&mut self) {
        self.state.abandon();
    }
}

impl<T, E> fmt::Debug for JobGroup<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobGroup").field("left", &self.state.left()).finish()
    }
}
