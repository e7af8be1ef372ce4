//! The state that a group shares with its submitters and its jobs.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::group_results::{GroupResults, Order};
use crate::job_run::caught;
use crate::job_slot::{JobSlot, Queued};
use crate::membership::{GroupMembers, Membership};
use crate::shared::Shared;
use crate::signal::Signal;
use crate::submission::{WaitForRoom, queue_job, refused};
use crate::{GroupError, Job, JobError, Refusal, SubmitError};

/// The jobs of a group, and how the group ended. A lock of the pool's state may be held when the
/// lock in here is taken, never the other way round.
pub(crate) struct GroupState<T, E> {
    shared: Arc<Shared>,
    members: Mutex<Members<T, E>>,
    /// Notified at the end of the group.
    ending: Signal,
}

struct Members<T, E> {
    results: GroupResults<T>,
    /// Why the group takes no more jobs; `None` while it does.
    ended: Option<Refusal>,
    /// The error of the job that failed first, until it is taken.
    failure: Option<GroupError<E>>,
    /// Number of submitters besides the group itself.
    submitters: usize,
    /// Waker of the task that waits for a result.
    collector: Option<Waker>,
}

impl<T, E> Members<T, E> {
    /// Returns the number of results that are to come: once the group has ended, that of its error.
    fn left(&self) -> usize {
        match self.ended {
            Some(_) => usize::from(self.failure.is_some()),
            None => self.results.len(),
        }
    }

    /// Returns whether no result is to come, and no job will be added.
    fn is_settled(&self) -> bool {
        self.left() == 0 && (self.ended.is_some() || self.submitters == 0)
    }
}

impl<T, E> GroupState<T, E> {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let members = Members {
            results: GroupResults::new(),
            ended: None,
            failure: None,
            submitters: 0,
            collector: None,
        };
        Self { shared, members: Mutex::new(members), ending: Signal::default() }
    }

    fn members(&self) -> MutexGuard<'_, Members<T, E>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of results that are to come.
    pub(crate) fn left(&self) -> usize {
        self.members().left()
    }

    /// Returns why the group takes no more jobs; `None` while it does.
    fn refusal(&self) -> Option<Refusal> {
        self.members().ended
    }

    pub(crate) fn add_submitter(&self) {
        self.members().submitters += 1;
    }

    pub(crate) fn remove_submitter(&self) {
        let collector = {
            let mut members = self.members();
            members.submitters -= 1;
            if members.submitters == 0 { members.collector.take() } else { None }
        };
        collector.into_iter().for_each(Waker::wake);
    }

    /// Takes the next result in this order, or the error of the job that failed first.
    pub(crate) fn poll_take(
        &self,
        order: Order,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<T, GroupError<E>>>> {
        let mut members = self.members();
        if members.is_settled() {
            return Poll::Ready(None);
        }
        if self.shared.runs_caller() {
            return Poll::Ready(Some(Err(GroupError::InsideJob)));
        }
        if let Some(error) = members.failure.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if let Some(output) = members.results.take(order) {
            return Poll::Ready(Some(Ok(output)));
        }
        if members.collector.as_ref().is_none_or(|known| !known.will_wake(cx.waker())) {
            members.collector = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Ends the group as its owner does: nobody takes its results any more.
    pub(crate) fn abandon(&self) {
        self.finish(Refusal::GroupEnded, None);
        let failure = self.members().failure.take();
        drop(failure);
    }

    fn complete(&self, index: usize, output: T) {
        let (collector, unwanted) = {
            let mut members = self.members();
            if members.ended.is_some() {
                (None, Some(output))
            } else {
                members.results.complete(index, output);
                (members.collector.take(), None)
            }
        };
        collector.into_iter().for_each(Waker::wake);
        drop(unwanted);
    }

    /// Ends the group and cancels its jobs; returns `false` if it has ended before.
    fn finish(&self, refusal: Refusal, failure: Option<GroupError<E>>) -> bool {
        let (jobs, outputs, collector) = {
            let mut members = self.members();
            if members.ended.is_some() {
                return false;
            }
            members.ended = Some(refusal);
            members.failure = failure;
            let (jobs, outputs) = members.results.take_all();
            (jobs, outputs, members.collector.take())
        };
        self.ending.tell();
        jobs.into_iter().for_each(|id| self.shared.cancel(id));
        collector.into_iter().for_each(Waker::wake);
        // The destructor of an output may panic.
        outputs.into_iter().for_each(|output| drop(caught(move || drop(output))));
        true
    }
}

impl<T, E> GroupState<T, E>
where
    T: Send + 'static,
    E: Send + 'static,
{
    /// Queues a job of the group, waiting for room.
    pub(crate) fn submit<J>(
        self: &Arc<Self>,
        job: J,
    ) -> impl Future<Output = Result<(), SubmitError<J>>> + Send
    where
        J: Job<Output = Result<T, E>>,
    {
        let group: Arc<dyn GroupMembers<Result<T, E>>> = Arc::<Self>::clone(self);
        let slot = JobSlot::new(job, true, Some(Membership::new(group)));
        async move {
            let queued: Queued = Arc::<JobSlot<J>>::clone(&slot);
            self.queue(&queued).await.map_err(|refusal| refused(refusal, &slot))
        }
    }

    async fn queue(&self, job: &Queued) -> Result<(), Refusal> {
        let mut ended = pin!(self.ending.until(|| self.refusal()));
        let mut queueing = pin!(queue_job(&self.shared, job, WaitForRoom::WithoutLimit));
        let queued = poll_fn(|cx| match ended.as_mut().poll(cx) {
            Poll::Ready(refusal) => Poll::Ready(Err(refusal)),
            Poll::Pending => queueing.as_mut().poll(cx),
        });
        let id = queued.await?;
        // The group ended while the job was queued, and so did not know of it.
        if self.refusal().is_some() {
            self.shared.cancel(id);
        }
        Ok(())
    }
}

impl<T, E> GroupMembers<Result<T, E>> for GroupState<T, E>
where
    T: Send + 'static,
    E: Send + 'static,
{
    fn add(&self, id: u64) -> usize {
        self.members().results.add(id)
    }

    fn end(&self, index: usize, result: Result<Result<T, E>, JobError>) {
        let error = match result {
            Ok(Ok(output)) => return self.complete(index, output),
            Ok(Err(error)) => GroupError::Failed { index, error },
            Err(error) => GroupError::Ended { index, error },
        };
        if self.finish(Refusal::GroupFailed, Some(error)) {
            tracing::debug!(pool = %self.shared.name, index, "a job of a group failed; the rest is cancelled");
        }
    }
}
