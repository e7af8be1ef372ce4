//! Jobs that belong together.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::cell::Cell;
use crate::pool::refused;
use crate::shared::{Queued, Shared};
use crate::turn::enter;
use crate::{GroupError, Job, JobError, JobHandle, SubmitError};

/// Jobs of a pool whose results come in the order of submission, and whose first error, in time, cancels all the rest.
///
/// A job fails when it gives `Err`, and when it ends without a result: panicked, lost its permit, never run, aborted.
/// Results that were not taken yet are kept, so a group holds as much memory as it has jobs; take them with
/// [`next`](Self::next) between submissions where there are many.
///
/// # Drop
/// Cancels all its jobs that have not ended.
///
/// # Examples
/// ```
/// use stanchion_pool::WorkerPool;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
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
pub struct Group<T, E> {
    shared: Arc<Shared>,
    state: Arc<GroupState>,
    /// Of all results that were not taken yet, in order.
    handles: VecDeque<JobHandle<Result<T, E>>>,
    taken: usize,
}

impl<T, E> Group<T, E>
where
    T: Send + 'static,
    E: Send + 'static,
{
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let state = Arc::new(GroupState { shared: Arc::clone(&shared), members: Mutex::default() });
        Self { shared, state, handles: VecDeque::new(), taken: 0 }
    }

    /// Queues a job of the group, waiting for room as [`WorkerPool::submit`](crate::WorkerPool::submit) does.
    ///
    /// # Errors
    /// [`Refusal::GroupFailed`](crate::Refusal::GroupFailed) once a job has failed, also while it waits;
    /// [`Refusal::Closed`](crate::Refusal::Closed). The job comes back.
    ///
    /// # Cancel safety
    /// As [`WorkerPool::submit`](crate::WorkerPool::submit).
    pub fn submit<J>(&mut self, job: J) -> impl Future<Output = Result<(), SubmitError<J>>> + Send
    where
        J: Job<Output = Result<T, E>>,
    {
        let index = self.taken + self.handles.len();
        let membership = Membership { group: Arc::clone(&self.state), index, failure: is_failure };
        let cell = Cell::new(job, true, Some(membership));
        async move {
            let queued: Queued = Arc::<Cell<J>>::clone(&cell);
            match enter(&self.shared, &queued, Some(&self.state)).await {
                Ok(id) => {
                    self.handles.push_back(JobHandle::new(id, cell, Arc::clone(&self.shared)));
                    self.state.add(id);
                    Ok(())
                }
                Err(refusal) => Err(refused(refusal, &cell)),
            }
        }
    }

    /// How many results were not taken yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.handles.len()
    }

    /// Whether all results were taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// The next result, in the order of submission; `None` when all were taken. Once a job failed it is that job's
    /// error, without waiting for those before it, and after that `None`.
    ///
    /// # Errors
    /// [`GroupError`], that of the first job that failed.
    ///
    /// # Cancel safety
    /// Safe: a dropped call has taken nothing.
    pub async fn next(&mut self) -> Option<Result<T, GroupError<E>>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// All results that were not taken yet, in the order of submission.
    ///
    /// # Errors
    /// [`GroupError`], that of the first job that failed; the others are cancelled.
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
            // Another failed just before, and this one is what that cancelled.
            if self.state.failed(cx.waker()) != Some(index) {
                continue;
            }
            self.taken += self.handles.len();
            self.handles.clear();
            return Poll::Ready(Some(Err(error)));
        }
    }
}

impl<T, E> Drop for Group<T, E> {
    fn drop(&mut self) {
        self.state.cancel_all();
    }
}

impl<T, E> fmt::Debug for Group<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("taken", &self.taken).field("left", &self.handles.len()).finish()
    }
}

/// What a job knows of its group.
pub(crate) struct Membership<R> {
    group: Arc<GroupState>,
    index: usize,
    failure: fn(&Result<R, JobError>) -> bool,
}

impl<R> Membership<R> {
    pub(crate) fn is_failure(&self, result: &Result<R, JobError>) -> bool {
        (self.failure)(result)
    }

    pub(crate) fn fail(&self) {
        self.group.fail(self.index);
    }
}

fn is_failure<T, E>(result: &Result<Result<T, E>, JobError>) -> bool {
    !matches!(result, Ok(Ok(_)))
}

pub(crate) struct GroupState {
    shared: Arc<Shared>,
    members: Mutex<Members>,
}

#[derive(Default)]
struct Members {
    /// Numbers of the jobs whose results were not taken yet.
    ids: VecDeque<u64>,
    failed: Option<usize>,
    /// The group's owner, who either submits or waits for a result.
    waker: Option<Waker>,
}

impl GroupState {
    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of the job that failed first; if there is none, the waker is told when there is.
    fn failed(&self, waker: &Waker) -> Option<usize> {
        let mut members = self.members();
        if members.failed.is_none() && members.waker.as_ref().is_none_or(|known| !known.will_wake(waker)) {
            members.waker = Some(waker.clone());
        }
        members.failed
    }

    pub(crate) fn has_failed(&self, waker: &Waker) -> bool {
        self.failed(waker).is_some()
    }

    fn add(&self, id: u64) {
        let failed = {
            let mut members = self.members();
            members.ids.push_back(id);
            members.failed.is_some()
        };
        // It was queued while another failed.
        if failed {
            self.cancel_all();
        }
    }

    fn forget_first(&self) {
        self.members().ids.pop_front();
    }

    fn fail(&self, index: usize) {
        let waker = {
            let mut members = self.members();
            if members.failed.is_some() {
                return;
            }
            members.failed = Some(index);
            members.waker.take()
        };
        tracing::debug!(pool = %self.shared.name, index, "a job of a group failed; the rest is cancelled");
        self.cancel_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn cancel_all(&self) {
        let ids = std::mem::take(&mut self.members().ids);
        ids.into_iter().for_each(|id| self.shared.cancel(id));
    }
}
