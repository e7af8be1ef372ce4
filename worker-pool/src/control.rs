//! Resizing, pausing and ending a pool.

use std::time::Duration;

use tokio::time::timeout;

use crate::builder::check_workers;
use crate::kernel::Mode;
use crate::worker::start_workers;
use crate::{ConfigError, DrainError, JobId, ReturnedJob, Shutdown, WorkerPool};

/// Timeout, after the deadline of a shutdown, for aborted jobs to be dropped.
const ABORT_TIMEOUT: Duration = Duration::from_millis(250);

impl WorkerPool {
    /// Changes the number of workers, 1 to [`MAX_WORKERS`](crate::MAX_WORKERS). New workers begin
    /// at once. Of surplus workers, idle ones leave at once and busy ones after their job.
    ///
    /// # Errors
    /// [`ConfigError`] if there are no workers or too many, or if the pool is drained or shut down.
    pub fn resize(&self, workers: usize) -> Result<(), ConfigError> {
        check_workers(workers)?;
        let added = self.shared().with(|kernel, wakes| match kernel.mode() {
            Mode::Open => Ok(kernel.resize(workers, wakes)),
            Mode::Draining | Mode::Closed => Err(ConfigError::Closed),
        })?;
        start_workers(self.shared(), added);
        Ok(())
    }

    /// Begins no more jobs until [`resume`](Self::resume). Running jobs go on, and jobs are queued
    /// while there is room. Permits that no job uses yet are given back. A pool that is drained or
    /// shut down is not paused.
    ///
    /// A paused pool still ends with its last handle. Handles in queued jobs count: if jobs use
    /// their own pool, let them hold a [`WeakPool`](crate::WeakPool). [`shutdown`](Self::shutdown)
    /// gives back the jobs that a paused pool has queued, and with them the handles that they hold.
    pub fn pause(&self) {
        self.shared().with(|kernel, wakes| {
            if kernel.mode() == Mode::Open {
                kernel.pause(wakes);
            }
        });
    }

    /// Ends a [`pause`](Self::pause).
    pub fn resume(&self) {
        self.shared().with(|kernel, wakes| kernel.resume(wakes));
    }

    /// Takes no more jobs, and waits until all running and queued jobs are finished and the workers
    /// have left. Callers that wait for room are refused, and a pause ends.
    ///
    /// It lasts as long as the jobs do. [`shutdown`](Self::shutdown) cuts it short, also when
    /// called during or after it.
    ///
    /// # Errors
    /// [`DrainError::InsideJob`] if the caller is a [job of the pool](WorkerPool#inside-a-job): the
    /// call would wait for its own job. The pool is unchanged.
    ///
    /// # Cancel safety
    /// A dropped call leaves the pool draining; it may be called again.
    pub async fn drain(&self) -> Result<(), DrainError> {
        if self.shared().runs_caller() {
            return Err(DrainError::InsideJob);
        }
        self.shared().with(|kernel, wakes| kernel.drain(wakes));
        self.shared().tell_if_ending();
        self.shared().until(|kernel| kernel.is_quiet() && kernel.workers() == 0).await;
        Ok(())
    }

    /// Takes no more jobs and begins none, gives running jobs `grace` to finish, aborts the rest,
    /// and gives back the jobs that never ran. Returns within `grace` and a quarter of a second,
    /// whatever the jobs and the store do.
    ///
    /// A job that still ran at the deadline is in [`Shutdown::aborted`]. A job that could not be
    /// stopped (a blocking job, or a job that did not come to an await point) is in
    /// [`Shutdown::unstopped`]: it runs on, holds its permit, and its handle gets its outcome when
    /// it ends.
    ///
    /// Inside a job of the pool, the call waits for its own job until `grace` is over. Then it
    /// aborts that job, and with it this call, as if it were dropped; in a blocking job it returns,
    /// and lists that job in [`Shutdown::unstopped`]. Call it outside the pool's jobs.
    ///
    /// # Cancel safety
    /// A dropped call leaves the pool closed: no job begins, running jobs go on, and no job is
    /// lost. Call it again: the next call gives back the jobs that never ran. Of several calls at
    /// once, the first to finish gives them back.
    pub async fn shutdown(&self, grace: Duration) -> Shutdown {
        let shared = self.shared();
        shared.with(|kernel, wakes| kernel.close(wakes));
        shared.tell_if_ending();
        if timeout(grace, shared.until(|kernel| kernel.workers() == 0)).await.is_err() {
            shared.with(|kernel, wakes| kernel.abort(wakes));
            let stopped = shared.until(|kernel| {
                kernel.workers() == kernel.running() && kernel.jobs().all(|(_, stoppable)| !stoppable)
            });
            // A job that still runs after that is reported.
            let _ = timeout(ABORT_TIMEOUT, stopped).await;
        }
        let (unrun, aborted, unstopped) = shared.with(|kernel, _| {
            let unstopped = kernel.jobs().map(|(id, _)| JobId(id)).collect();
            (kernel.take_unrun(), kernel.take_aborted(), unstopped)
        });
        let report = Shutdown {
            returned: unrun.into_iter().map(|(id, job)| ReturnedJob::new(id, job)).collect(),
            aborted: aborted.into_iter().map(JobId).collect(),
            unstopped,
        };
        tracing::info!(
            pool = %shared.name, returned = report.returned.len(), aborted = report.aborted.len(),
            unstopped = report.unstopped.len(), "pool shut down"
        );
        report
    }
}
