//! How a pool is held, changed and ended.

use std::time::Duration;

use tokio::time::timeout;

use crate::builder::check_workers;
use crate::kernel::Mode;
use crate::{ConfigError, JobId, ReturnedJob, Shutdown, WorkerPool};

/// How long a shutdown waits, after its deadline, for jobs to be dropped.
const ABORT_TIME: Duration = Duration::from_millis(250);

impl WorkerPool {
    /// Changes the number of workers, 1 to [`MAX_WORKERS`](crate::MAX_WORKERS). More begin at once; of too many, idle
    /// ones leave at once and others after their job.
    ///
    /// # Errors
    /// [`ConfigError`], if there are none or too many, or if the pool is drained or shut down.
    pub fn resize(&self, workers: usize) -> Result<(), ConfigError> {
        check_workers(workers)?;
        let seats = self.shared().with(|kernel, wakes| match kernel.mode() {
            Mode::Open => Ok(kernel.resize(workers, wakes)),
            Mode::Draining | Mode::Closed => Err(ConfigError::Closed),
        })?;
        self.shared().start(seats);
        Ok(())
    }

    /// Begins no more jobs until [`resume`](Self::resume). What runs goes on, and jobs are queued while there is room.
    /// Permits that were not used yet are given back. A pool that is drained or shut down is not paused.
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

    /// Takes no more jobs, and waits until all it has are finished, those that are queued included. Whoever waits for
    /// room is refused, and a pause ends. Then the workers have left.
    ///
    /// It lasts as long as the jobs do: [`shutdown`](Self::shutdown) cuts it short, also after or beside it.
    ///
    /// # Cancel safety
    /// A dropped call leaves the pool draining; it may be called again.
    pub async fn drain(&self) {
        self.shared().with(|kernel, wakes| kernel.drain(wakes));
        self.shared().tell_if_ending();
        self.shared().until(|kernel| kernel.is_quiet() && kernel.workers() == 0).await;
    }

    /// Takes no more jobs and begins none, gives running ones this long to finish, aborts the rest, and gives back what
    /// never ran. It returns within `grace` and a quarter of a second, whatever the jobs and the store do.
    ///
    /// What still ran at the deadline is in [`Shutdown::aborted`]. What could not be stopped (a blocking job, or one that
    /// did not come to an await point) is in [`Shutdown::unstopped`]: it runs on, holds its permit, and its handle
    /// gets its outcome when it ends.
    ///
    /// # Cancel safety
    /// A dropped call leaves the pool closed: nothing begins, what runs goes on, and nothing is lost. Call it again: the
    /// next one gives back what never ran. Of several at once the first to finish gives it back.
    pub async fn shutdown(&self, grace: Duration) -> Shutdown {
        let shared = self.shared();
        shared.with(|kernel, wakes| kernel.close(wakes));
        shared.tell_if_ending();
        if timeout(grace, shared.until(|kernel| kernel.workers() == 0)).await.is_err() {
            shared.with(|kernel, wakes| kernel.abort(wakes));
            let stopped = shared.until(|kernel| {
                kernel.workers() == kernel.running() && kernel.jobs().all(|(_, stoppable)| !stoppable)
            });
            // Who is still there after that is reported.
            let _ = timeout(ABORT_TIME, stopped).await;
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
