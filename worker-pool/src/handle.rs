//! The submitter's handle of a job.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::JobError;
use crate::job_slot::Outcome;
use crate::shared::Shared;

/// The number of a job in its pool: 1 for the first job, larger for every later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub(crate) u64);

impl JobId {
    /// Returns the number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A handle of a queued job. Awaiting it returns the job's output, or the [`JobError`] that says
/// why there is none.
///
/// By the time the handle resolves, the job's future is dropped, its permit is on its way back, and
/// the pool's counters include the job.
///
/// # Inside a job
/// A job that awaits the handle of a job of its own pool gets [`JobError::InsideJob`] at once, also
/// if that job has ended: it would keep a worker busy while it waits for one, and jobs that wait so
/// on all workers wait for ever. The handle's job goes on, and the handle stays valid. A job can
/// return the handle as its output, so that it is awaited outside. See
/// [`WorkerPool`](crate::WorkerPool#inside-a-job) for the undetected cases.
///
/// # Drop
/// Dropping a handle detaches its job: the job still runs, and its output is dropped.
/// [`cancel`](Self::cancel) stops it.
///
/// # Cancel safety
/// Awaiting the handle by reference is safe: dropping that await loses nothing.
///
/// # Panics
/// Panics when the handle is polled again after it resolved.
#[must_use = "a dropped handle detaches its job, and the outcome is not seen"]
pub struct JobHandle<T> {
    id: JobId,
    outcome: Arc<dyn Outcome<T>>,
    shared: Arc<Shared>,
}

impl<T> JobHandle<T> {
    pub(crate) fn new(id: u64, outcome: Arc<dyn Outcome<T>>, shared: Arc<Shared>) -> Self {
        Self { id: JobId(id), outcome, shared }
    }

    /// Returns the job's number.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.id
    }

    /// Returns whether the job has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.outcome.is_ended()
    }

    /// Cancels the job. A job that has not begun never begins, and its place is free at once. The
    /// future of a running job is dropped before its next step, and the handle then resolves to
    /// [`JobError::Cancelled`]; a job that ends first keeps its result. Does nothing if the job has
    /// ended.
    ///
    /// Limitations: a blocking job that has begun runs to its end, and so does a job that never
    /// awaits. A job that a shutdown gave back is no longer cancelled.
    pub fn cancel(&self) {
        self.shared.cancel(self.id.0);
    }
}

impl<T> Future for JobHandle<T> {
    type Output = Result<T, JobError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.shared.runs_caller() {
            return Poll::Ready(Err(JobError::InsideJob));
        }
        self.outcome.poll_outcome(cx)
    }
}

impl<T> fmt::Debug for JobHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobHandle").field("id", &self.id).field("finished", &self.is_finished()).finish()
    }
}
