//! A group of jobs with one result.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::group_state::GroupState;
use crate::job_slot::{JobSlot, Queued};
use crate::membership::Membership;
use crate::shared::Shared;
use crate::submission::{queue_job, refused};
use crate::{GroupError, Job, JobError, JobHandle, SubmitError};

/// A group of jobs. Results come in the order of submission, and the first error, in time, cancels all other jobs.
///
/// A job fails when it returns `Err`, and when it ends without a result: it panicked, lost its permit, was never run or
/// was aborted. The group keeps every result until it is taken, so its memory grows with its jobs. Where there are
/// many, take results with [`next`](Self::next) between submissions.
///
/// # Drop
/// Cancels all jobs of the group that have not ended.
///
/// # Examples
/// ```
/// use stanchion_pool::WorkerPool;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let pool = WorkerPool::builder().workers(4).queue(10).build()?;
/// let mut group = pool.group::<u32, std::io::Error>();
/// for number in 1..=5 {
///     group.submit(async move { Ok(number * number) }).await?;
/// }
/// assert_eq!(group.join().await?, [1, 4, 9, 16, 25]);
/// # Ok(())
/// # }
/// ```
#[must_use = "a dropped group cancels its jobs"]
pub struct JobGroup<T, E> {
    shared: Arc<Shared>,
    state: Arc<GroupState>,
    /// Handles of the results that were not taken yet, in the order of submission.
    handles: VecDeque<JobHandle<Result<T, E>>>,
    taken: usize,
}

impl<T, E> JobGroup<T, E>
where
    T: Send + 'static,
    E: Send + 'static,
{
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let state = Arc::new(GroupState::new(Arc::clone(&shared)));
        Self { shared, state, handles: VecDeque::new(), taken: 0 }
    }

    /// Queues a job of the group, waiting for room as [`WorkerPool::submit`](crate::WorkerPool::submit) does.
    ///
    /// # Errors
    /// [`Refusal::GroupFailed`](crate::Refusal::GroupFailed) once a job of the group has failed, also while the call
    /// waits; [`Refusal::Closed`](crate::Refusal::Closed). The error returns the job.
    ///
    /// # Cancel safety
    /// As [`WorkerPool::submit`](crate::WorkerPool::submit).
    pub fn submit<J>(&mut self, job: J) -> impl Future<Output = Result<(), SubmitError<J>>> + Send
    where
        J: Job<Output = Result<T, E>>,
    {
        let index = self.taken + self.handles.len();
        let membership = Membership::new(Arc::<GroupState>::clone(&self.state), index, is_failure);
        let slot = JobSlot::new(job, true, Some(membership));
        async move {
            let queued: Queued = Arc::<JobSlot<J>>::clone(&slot);
            match queue_job(&self.shared, &queued, Some(&self.state)).await {
                Ok(id) => {
                    self.handles.push_back(JobHandle::new(id, slot, Arc::clone(&self.shared)));
                    self.state.add(id);
                    Ok(())
                }
                Err(refusal) => Err(refused(refusal, &slot)),
            }
        }
    }

    /// Returns the number of results that were not taken yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.handles.len()
    }

    /// Returns whether all results were taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// Returns the next result, in the order of submission; `None` when all were taken. Once a job failed, the next
    /// result is that job's error, without waiting for earlier jobs, and after that `None`.
    ///
    /// # Errors
    /// [`GroupError`] of the first job that failed.
    ///
    /// # Cancel safety
    /// Safe: a dropped call has taken no result.
    pub async fn next(&mut self) -> Option<Result<T, GroupError<E>>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Waits for all results that were not taken yet, in the order of submission.
    ///
    /// # Errors
    /// [`GroupError`] of the first job that failed; the other jobs are cancelled.
    ///
    /// # Cancel safety
    /// A dropped call drops the group, which cancels its jobs.
    pub async fn join(mut self) -> Result<Vec<T>, GroupError<E>> {
        let mut results = Vec::with_capacity(self.handles.len());
        while let Some(result) = self.next().await {
            results.push(result?);
        }
        Ok(results)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, GroupError<E>>>> {
        loop {
            let failed = self.state.failed(cx.waker()).and_then(|index| index.checked_sub(self.taken));
            let place = failed.unwrap_or(0);
            let Some(handle) = self.handles.get_mut(place) else { return Poll::Ready(None) };
            let Poll::Ready(result) = Pin::new(handle).poll(cx) else { return Poll::Pending };
            let index = self.taken + place;
            let error = match result {
                Ok(Ok(output)) => {
                    self.handles.pop_front();
                    self.taken += 1;
                    self.state.forget_first();
                    return Poll::Ready(Some(Ok(output)));
                }
                Ok(Err(error)) => GroupError::Failed { index, error },
                Err(error) => GroupError::Ended { index, error },
            };
            // Another job failed just before, and its failure cancelled this one.
            if self.state.failed(cx.waker()) != Some(index) {
                continue;
            }
            self.taken += self.handles.len();
            self.handles.clear();
            return Poll::Ready(Some(Err(error)));
        }
    }
}

impl<T, E> Drop for JobGroup<T, E> {
    fn drop(&mut self) {
        self.state.cancel_all();
    }
}

impl<T, E> fmt::Debug for JobGroup<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobGroup").field("taken", &self.taken).field("left", &self.handles.len()).finish()
    }
}

fn is_failure<T, E>(result: &Result<Result<T, E>, JobError>) -> bool {
    !matches!(result, Ok(Ok(_)))
}
