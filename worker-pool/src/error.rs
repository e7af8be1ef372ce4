//! Errors of building and draining a pool, of submitting jobs and of running them.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use thiserror::Error;

/// Maximum number of workers of a pool.
pub const MAX_WORKERS: usize = 65_536;

/// Why a pool cannot be built or resized.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A pool without workers would never run a job. [`pause`](crate::WorkerPool::pause) stops a
    /// pool for a while.
    #[error("a pool needs at least one worker")]
    NoWorkers,
    /// More workers than [`MAX_WORKERS`].
    #[error("at most {max} workers, not {asked}", max = MAX_WORKERS)]
    TooManyWorkers {
        /// The requested number of workers.
        asked: usize,
    },
    /// A queue with no place could not pass a job to a worker.
    #[error("a queue needs at least one place")]
    NoQueue,
    /// The pool is built outside a Tokio runtime and was given none.
    #[error("there is no Tokio runtime here, and none was given")]
    NoRuntime,
    /// The pool is drained or shut down.
    #[error("the pool is closed")]
    Closed,
}

/// Why a pool was not drained.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DrainError {
    /// The caller is a job of the pool: it would wait for its own end. The pool is unchanged. See
    /// [`WorkerPool`](crate::WorkerPool#inside-a-job).
    #[error("a job drains its own pool, and would wait for its own end: drain the pool outside its jobs")]
    InsideJob,
}

/// Why a job was not queued.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The queue is full, or other callers wait for room already.
    #[error("the queue is full")]
    Full,
    /// There was no room within the timeout.
    #[error("there was no room in the queue in time")]
    TimedOut,
    /// The pool is drained or shut down.
    #[error("the pool is closed")]
    Closed,
    /// Another job of the group failed.
    #[error("a job of the group failed")]
    GroupFailed,
    /// The group was dropped or joined.
    #[error("the group has ended")]
    GroupEnded,
    /// The caller is a job of the pool, and the queue is full: the caller keeps a worker busy while
    /// it waits for room, and if all workers wait so, there never is room. See
    /// [`WorkerPool`](crate::WorkerPool#inside-a-job).
    #[error(
        "the queue is full, and a job of the pool would wait for room, which may never come: run the refused job in \
         place, or limit the wait with `submit_for`"
    )]
    InsideJob,
}

/// A job that was not queued, with the reason. It has not begun.
///
/// It is `Send` and `Sync` whatever the job is, so that `?` turns it into a `Box<dyn Error + Send +
/// Sync>`.
#[derive(Error)]
#[error("job refused: {refusal}")]
pub struct SubmitError<J> {
    refusal: Refusal,
    /// Behind a lock that nobody takes: a job need not be `Sync`.
    job: Mutex<J>,
}

impl<J> SubmitError<J> {
    pub(crate) fn new(refusal: Refusal, job: J) -> Self {
        Self { refusal, job: Mutex::new(job) }
    }

    /// Returns why the job was refused.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        self.refusal
    }

    /// Returns the job, unchanged.
    #[must_use]
    pub fn into_job(self) -> J {
        self.job.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn map<K>(self, change: impl FnOnce(J) -> K) -> SubmitError<K> {
        SubmitError::new(self.refusal, change(self.into_job()))
    }
}

impl<J> fmt::Debug for SubmitError<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubmitError").field("refusal", &self.refusal).finish_non_exhaustive()
    }
}

/// Why a handle has no output of its job.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JobError {
    /// The job panicked.
    #[error("the job panicked: {0}")]
    Panicked(Panic),
    /// The handle or the group of the job cancelled it, before it began or while it ran.
    #[error("the job was cancelled")]
    Cancelled,
    /// The job lost its permit from the semaphore that caps the jobs of the whole cluster. An async
    /// job was stopped; a blocking job ran to its end, partly without a permit.
    #[error("the job lost its permit")]
    LostPermit,
    /// The store refused the job's permit or rate token for good: it is closed, for example, or the
    /// semaphore has another limit. The job has not begun.
    #[error("the store refused what the job needs to begin: {0}")]
    Refused(#[source] stanchion_core::Error),
    /// The pool ended before the job began.
    #[error("the pool ended before the job began")]
    NotRun,
    /// The job was stopped while it ran, at the deadline of a shutdown or with its runtime.
    #[error("the job was aborted")]
    Aborted,
    /// A job of the pool awaited the handle. The handle's job goes on, and the handle stays valid:
    /// outside the pool's jobs, it returns how its job ended. See
    /// [`WorkerPool`](crate::WorkerPool#inside-a-job).
    #[error(
        "a job waits for another job of its own pool, which may never get a worker: await the handle outside the \
         pool's jobs, or do the work in place"
    )]
    InsideJob,
}

/// The panic of a job.
pub struct Panic {
    message: String,
    payload: Mutex<Box<dyn Any + Send>>,
}

impl Panic {
    pub(crate) fn new(payload: Box<dyn Any + Send>) -> Self {
        let message = if let Some(text) = payload.downcast_ref::<&str>() {
            (*text).to_owned()
        } else if let Some(text) = payload.downcast_ref::<String>() {
            text.clone()
        } else {
            "(no message)".to_owned()
        };
        Self { message, payload: Mutex::new(payload) }
    }

    /// Returns the panic message, or `(no message)`.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the panic payload, for [`resume_unwind`](std::panic::resume_unwind).
    #[must_use]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.payload.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panic").field(&self.message).finish()
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Why a group has no result.
///
/// It is an error for every `E` that prints, also for an `E` that is no error itself, as `Box<dyn
/// Error + Send + Sync>`. Its text ends with that of the job's error, and it has no
/// [`source`](Error::source): match on it for the error itself.
#[derive(Debug)]
#[non_exhaustive]
pub enum GroupError<E> {
    /// A job returned an error, before any other job failed.
    Failed {
        /// Position of the job in the order of submission, from 0.
        index: usize,
        /// The error that the job returned.
        error: E,
    },
    /// A job ended without a result, before any other job failed.
    Ended {
        /// Position of the job in the order of submission, from 0.
        index: usize,
        /// How the job ended.
        error: JobError,
    },
    /// A job of the pool awaited the group. The group is unchanged, unless the call consumed it:
    /// outside the pool's jobs, it returns its results. See
    /// [`WorkerPool`](crate::WorkerPool#inside-a-job).
    InsideJob,
}

impl<E> GroupError<E> {
    /// Returns the position of the failed job in the order of submission, from 0; `None` if no job
    /// failed.
    #[must_use]
    pub fn index(&self) -> Option<usize> {
        match self {
            Self::Failed { index, .. } | Self::Ended { index, .. } => Some(*index),
            Self::InsideJob => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for GroupError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { index, error } => write!(f, "job {index} of the group failed: {error}"),
            Self::Ended { index, error } => write!(f, "job {index} of the group has no result: {error}"),
            Self::InsideJob => f.write_str(
                "a job waits for a group of its own pool, whose jobs may never get a worker: await the group outside \
                 the pool's jobs",
            ),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for GroupError<E> {}
