//! Periodic jobs of threads.

use std::future::ready;

use super::Lost;
use super::waiting::{refused, wait_in};
use crate::runtime::blocked_thread::BlockedThread;
use crate::{ElectionHandle, FencingToken, JobResult, Result};

/// A job that runs once in each period, on one of several instances, as
/// [`stanchion::PeriodicJob`](crate::PeriodicJob), for threads; made by
/// [`Store::every`](super::Store::every). It does nothing until [`run`](Self::run).
#[derive(Debug)]
#[must_use = "a job runs only inside of `run`"]
pub struct PeriodicJob<J>(pub(super) crate::PeriodicJob<J>);

impl<J> PeriodicJob<J> {
    /// Returns a handle of this instance, for other threads: it shows whether this instance leads,
    /// steps down and withdraws. A run that is under way is finished, and noted, before `run` hears
    /// of it.
    #[must_use]
    pub fn handle(&self) -> ElectionHandle {
        self.0.handle()
    }

    /// Runs the job in this thread until [`withdraw`](ElectionHandle::withdraw): waits in the queue
    /// of instances; as the leader, waits until a run is due, and runs the job.
    ///
    /// A run that fails, panics or loses the lead is repeated, as by
    /// [`PeriodicJob::run`](crate::PeriodicJob::run). The lead is renewed while the job runs. Where
    /// it is lost all the same, another instance can begin while this thread is at it: the job
    /// looks at [`Lost`] between its steps, and its writes are idempotent or
    /// [fenced](crate::Fenced).
    ///
    /// # Errors
    /// As [`PeriodicJob::run`](crate::PeriodicJob::run); `Unsupported` inside of a polled task,
    /// before the job has run.
    pub fn run<R>(self) -> Result<()>
    where
        J: FnMut(FencingToken, Lost<'_>) -> R,
        R: JobResult,
    {
        let name = self.0.name().to_owned();
        let run = async {
            refused()?;
            self.0.run_with(run_of_thread).await
        };
        wait_in("run", "blocking", &name, run)
    }
}

/// Runs the job, on a thread that no call blocks meanwhile: the calls of the job are no part of
/// this call.
fn run_of_thread<J, R>(job: &mut J, guard: &crate::MutexGuard) -> impl Future<Output = R> + use<J, R>
where
    J: FnMut(FencingToken, Lost<'_>) -> R,
{
    let _at_work = BlockedThread::unmark();
    ready(job(guard.fencing_token(), Lost(guard.hold())))
}
