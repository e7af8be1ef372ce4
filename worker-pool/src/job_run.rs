//! The run of a queued job to its end, with its panics contained.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use tracing::Span;

use crate::error::{JobError, Panic};
use crate::job_slot::{Queued, Running};

/// Polls a job once; a panic becomes the job's error.
pub(crate) fn step(
    running: Option<&mut Running>,
    span: &Span,
    cx: &mut Context<'_>,
) -> Poll<Result<(), JobError>> {
    let Some(running) = running else { return Poll::Ready(Ok(())) };
    match caught(|| span.in_scope(|| running.as_mut().poll(cx))) {
        Ok(step) => step.map(Ok),
        Err(payload) => Poll::Ready(Err(JobError::Panicked(Panic::new(payload)))),
    }
}

/// Ends a job with an error, and wakes its handle.
pub(crate) fn end(job: Queued, error: JobError) {
    // The second call runs even if a destructor panics in the first.
    drop(caught(|| job.fail(error)));
    drop(caught(move || job.announce()));
}

/// Runs a closure and catches its panic: it may drop jobs and results, whose destructors may panic.
pub(crate) fn caught<R>(run: impl FnOnce() -> R) -> Result<R, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(run))
}
