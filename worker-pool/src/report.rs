//! What a shutdown tells, and the jobs that it gives back.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use crate::shared::Queued;
use crate::worker::{caught, end, step};
use crate::{Job, JobError, JobId};

/// What became of the jobs that a pool had when it was [shut down](crate::WorkerPool::shutdown).
///
/// What is in none of the lists had ended by itself.
#[derive(Debug, Default)]
#[non_exhaustive]
#[must_use = "jobs that never ran are in it"]
pub struct Shutdown {
    /// Jobs that never began, in the order in which they were queued. None if the runtime of the workers ended first:
    /// then their handles give [`JobError::NotRun`].
    pub returned: Vec<ReturnedJob>,
    /// Jobs that were stopped in the middle, at the deadline.
    pub aborted: Vec<JobId>,
    /// Jobs that could not be stopped, and run on.
    pub unstopped: Vec<JobId>,
}

/// A job that its pool never began. It can be [run](Self::run) somewhere else, for example in another pool, and its
/// handle then gives the outcome; a job of a type of one's own can be [taken out](Self::downcast).
///
/// It is the caller's now: neither its handle nor its group cancels it any more.
///
/// # Drop
/// The job is dropped, and its handle gives [`JobError::NotRun`].
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use stanchion_pool::WorkerPool;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
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

    /// The number that it had in its pool.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The job's type, as [`type_name`](std::any::type_name) gives it.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        self.job.kind()
    }

    /// Runs it here, and gives the outcome to its handle. A panic goes there too.
    ///
    /// # Cancel safety
    /// Dropped in the middle, the handle gives [`JobError::Aborted`]; dropped before, [`JobError::NotRun`].
    pub async fn run(mut self) {
        let Some(running) = Arc::clone(&self.job).start() else { return };
        self.fate = Some(JobError::Aborted);
        let mut running = Some(running);
        let span = tracing::debug_span!("job", id = self.id.0, kind = self.job.kind());
        let ended = poll_fn(|cx| step(running.as_mut(), &span, cx)).await;
        drop(caught(|| drop(running.take())));
        self.fate = ended.err();
    }

    /// Takes the job out, if it is of that type; its handle gives [`JobError::NotRun`].
    ///
    /// # Errors
    /// This, if it is of another type.
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
