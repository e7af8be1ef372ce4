//! What a submitter keeps of a job.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::JobError;
use crate::cell::Outcome;
use crate::shared::Shared;

/// The number of a job in its pool: 1 for the first, larger for every later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub(crate) u64);

impl JobId {
    /// The number.
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

/// A job that was queued. Awaiting it gives the job's output, or the [`JobError`] that tells why there is none.
///
/// By the time it resolves the job's future is dropped, its permit is on its way back and the pool's counters have it.
///
/// # Drop
/// Dropping a handle detaches: the job runs all the same, and its output is dropped. [`cancel`](Self::cancel) stops it.
///
/// # Cancel safety
/// Awaiting it by reference is safe: nothing is lost when that is dropped.
///
/// # Panics
/// When it is polled again after it resolved.
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

    /// The job's number.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.id
    }

    /// Whether the job has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.outcome.is_ended()
    }

    /// Cancels the job. If it has not begun it never will, and its place is free at once. If it runs, its future is
    /// dropped before its next step, and the handle resolves to [`JobError::Cancelled`] once that is done; a job that
    /// ends first keeps its result. Nothing happens if it has ended.
    ///
    /// What is *not* guaranteed: a blocking job that has begun runs to its end, and so does one that never awaits; a job
    /// that a shutdown gave back is not the pool's any more.
    pub fn cancel(&self) {
        self.shared.cancel(self.id.0);
    }
}

impl<T> Future for JobHandle<T> {
    type Output = Result<T, JobError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.outcome.poll_outcome(cx)
    }
}

impl<T> fmt::Debug for JobHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobHandle").field("id", &self.id).field("finished", &self.is_finished()).finish()
    }
}
