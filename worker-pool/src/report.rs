//! The report of a shutdown, and the jobs that it gives back.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use crate::job_run::{caught, end, step};
use crate::job_slot::Queued;
use crate::{Job, JobError, JobId};

/// The fate of the jobs that a pool had when it was [shut down](crate::WorkerPool::shutdown).
///
/// A job in none of the lists ended by itself.
#[derive(Debug, Default)]
#[non_exhaustive]
#[must_use = "jobs that never ran are in it"]
pub struct Shutdown {
    /// Jobs that never began, in the order in which they were queued. Empty if the runtime of the
    /// workers ended first: then their handles return [`JobError::NotRun`].
    pub returned: Vec<ReturnedJob>,
    /// Jobs that were stopped while they ran, at the deadline.
    pub aborted: Vec<JobId>,
    /// Jobs that could not be stopped, and run on.
    pub unstopped: Vec<JobId>,
}

/// A job that its pool never began. It can be [run](Self::run) somewhere else, for example in
/// another pool, and its handle then returns the outcome. A job of a dedicated type can be [taken
/// out](Self::downcast).
///
/// The job belongs to the caller: neither its handle nor its group cancels it any more.
///
/// # Drop
/// Drops the job; its handle returns [`JobError::NotRun`].
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use stanchion_pool::WorkerPool;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let old = WorkerPool::builder().workers(1).queue(10).build()?;
/// old.pause();
/// let answer = old.submit(async { 42 }).await?;
/// let new = WorkerPool::builder().workers(2).queue(10).build()?;
/// for job in old.shutdown(Duration::ZERO).await.returned {
///     drop(new.submit(job.run()).await?);
/// }
/// assert_eq!(answer.await?, 42);
/// # Ok(())
/// # }
/// ```
#[must_use = "a dropped job never runs"]
pub struct ReturnedJob {
    id: JobId,
    job: Queued,
    fate: Option<JobError>,
}

impl ReturnedJob {
    pub(crate) fn new(id: u64, job: Queued) -> Self {
        Self { id: JobId(id), job, fate: Some(JobError::NotRun) }
    }

    /// Returns the number that the job had in its pool.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.id
    }

    /// Returns the name of the job's type, from [`type_name`](std::any::type_name).
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        self.job.kind()
    }

    /// Runs the job here; its handle returns the outcome. A panic goes to the handle too.
    ///
    /// # Cancel safety
    /// If the call is dropped while the job runs, the handle returns [`JobError::Aborted`]; if it
    /// is dropped before, [`JobError::NotRun`].
    pub async fn run(mut self) {
        let Some(running) = Arc::clone(&self.job).start() else { return };
        self.fate = Some(JobError::Aborted);
        let mut running = Some(running);
        let span = tracing::debug_span!("job", id = self.id.0, kind = self.job.kind());
        let ended = poll_fn(|cx| step(running.as_mut(), &span, cx)).await;
        drop(caught(|| drop(running.take())));
        self.fate = ended.err();
    }

    /// Takes the job out if it is of type `J`; its handle then returns [`JobError::NotRun`].
    ///
    /// # Errors
    /// Returns `self` if the job is of another type.
    pub fn downcast<J: Job>(self) -> Result<J, Self> {
        if self.job.job_type() != std::any::TypeId::of::<J>() {
            return Err(self);
        }
        match self.job.take_any().map(|job| job.downcast::<J>()) {
            Some(Ok(job)) => Ok(*job),
            _ => Err(self),
        }
    }
}

impl Drop for ReturnedJob {
    fn drop(&mut self) {
        match self.fate.take() {
            Some(error) => end(Arc::clone(&self.job), error),
            None => drop(caught(|| self.job.announce())),
        }
    }
}

impl fmt::Debug for ReturnedJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReturnedJob").field("id", &self.id).field("type_name", &self.type_name()).finish()
    }
}
