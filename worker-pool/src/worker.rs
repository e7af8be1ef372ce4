//! One of the pool's tasks: takes a job, runs it to its end, and takes the next one.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use stanchion_core::Permit;
use tokio::task::coop;

use crate::cluster_limits::ClusterLimits;
use crate::error::JobError;
use crate::job_context::JobContext;
use crate::job_run::{caught, end, step};
use crate::job_slot::Queued;
use crate::kernel::{End, Next, Stop, StopFlag, Wakes};
use crate::shared::{PoolKernel, Shared};

/// How a job ended; its output is in its slot.
type Ended = Result<(), JobError>;

/// Starts the tasks of workers that were just added to the kernel.
pub(crate) fn start_workers(shared: &Arc<Shared>, workers: Vec<(usize, Arc<StopFlag>)>) {
    for (number, stop) in workers {
        let worker = Worker::new(Arc::clone(shared), number, stop);
        drop(shared.runtime.spawn(worker.work()));
    }
}

/// A worker with its number. If its runtime drops it, it accounts for the job that it was running.
struct Worker {
    shared: Arc<Shared>,
    number: usize,
    stop: Arc<StopFlag>,
    waker: Option<Waker>,
    current: Option<Queued>,
    /// A token of the rate is there for the next job.
    is_paid: bool,
    left: bool,
}

impl Worker {
    fn new(shared: Arc<Shared>, number: usize, stop: Arc<StopFlag>) -> Self {
        Self { shared, number, stop, waker: None, current: None, is_paid: false, left: false }
    }

    async fn work(mut self) {
        let mut ended = None;
        while let Some((id, job, permit)) = self.next(ended.take()).await {
            self.current = Some(Arc::clone(&job));
            coop::consume_budget().await;
            ended = Some(self.run(id, &job, permit).await);
        }
        self.left = true;
        self.shared.tell_if_ending();
    }

    /// Accounts for the job that ended, and returns the next one, with its permit if the pool has a
    /// cap. Returns `None` once this worker has to leave.
    async fn next(&mut self, ended: Option<Ended>) -> Option<(u64, Queued, Option<Permit>)> {
        let shared = Arc::clone(&self.shared);
        let Some(limits) = &shared.limits else {
            let mut ended = ended;
            let (id, job) = poll_fn(|cx| self.poll_take(cx, ended.take())).await?;
            return Some((id, job, None));
        };
        self.finish(ended, |_, _| ());
        loop {
            poll_fn(|cx| self.poll_seek(cx)).await?;
            let Some(permit) = self.acquire(limits).await else { continue };
            let number = self.number;
            match shared.with(|kernel, wakes| kernel.take(number, |job| job.is_stoppable(), wakes)) {
                Next::Go((id, job)) => match permit {
                    Ok(permit) => return Some((id, job, permit)),
                    Err(error) => {
                        self.current = Some(job);
                        self.finish(Some(Err(JobError::Refused(error))), |_, _| ());
                        coop::consume_budget().await;
                    }
                },
                // The job was cancelled meanwhile; the permit is given back.
                Next::Wait => {}
                Next::Leave => return None,
            }
        }
    }

    /// Waits for the store, as long as there are jobs that need a permit or a rate token.
    async fn acquire(&mut self, limits: &ClusterLimits) -> Option<stanchion_core::Result<Option<Permit>>> {
        let shared = Arc::clone(&self.shared);
        let count_error = || shared.with(|kernel, _| kernel.counts.store_errors += 1);
        let mut is_paid = self.is_paid;
        let acquired = {
            let mut acquiring = pin!(limits.acquire(&shared.name, &mut is_paid, count_error));
            poll_fn(|cx| {
                self.register(cx.waker());
                if !shared.with(|kernel, wakes| kernel.keeps_seeking(self.number, wakes)) {
                    return Poll::Ready(None);
                }
                acquiring.as_mut().poll(cx).map(Some)
            })
            .await
        };
        // What was paid when no job waited any more is lost, as the docs say.
        self.is_paid = is_paid && acquired.is_some();
        acquired
    }

    fn poll_take(&mut self, cx: &mut Context<'_>, ended: Option<Ended>) -> Poll<Option<(u64, Queued)>> {
        self.register(cx.waker());
        let number = self.number;
        ready(self.finish(ended, |kernel, wakes| kernel.take(number, |job| job.is_stoppable(), wakes)))
    }

    fn poll_seek(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        self.register(cx.waker());
        let number = self.number;
        ready(self.shared.with(|kernel, wakes| kernel.seek(number, wakes)))
    }

    /// Registers this task's waker in the kernel, unless the kernel has it already.
    fn register(&mut self, waker: &Waker) {
        if self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return;
        }
        self.waker = Some(waker.clone());
        let number = self.number;
        self.shared.with(|kernel, _| kernel.register(number, waker.clone()));
    }

    /// Runs a job until it ends in any way. When this returns, the job's future is dropped and its
    /// permit given back.
    async fn run(&mut self, id: u64, job: &Queued, permit: Option<Permit>) -> Ended {
        let span = tracing::debug_span!("job", pool = %self.shared.name, id, kind = job.kind());
        span.follows_from(job.origin().id());
        let Some(running) = Arc::clone(job).start() else { return Err(JobError::Cancelled) };
        let mut running = Some(running);
        let stoppable = job.is_stoppable();
        let context = JobContext { pool: self.shared.id, token: permit.as_ref().map(Permit::fencing_token) };
        let mut begun = false;
        let mut steps = pin!(poll_fn(|cx| {
            self.register(cx.waker());
            if (stoppable || !begun)
                && let Some(stop) = self.stop.get()
            {
                return Poll::Ready(Err(stopped(stop)));
            }
            begun = true;
            context.enter(|| step(running.as_mut(), &span, cx))
        }));
        let ended = match &permit {
            Some(permit) if stoppable => {
                permit.run(steps.as_mut()).await.unwrap_or(Err(JobError::LostPermit))
            }
            Some(permit) => {
                let ended = steps.as_mut().await;
                if permit.is_held() { ended } else { Err(JobError::LostPermit) }
            }
            None => steps.as_mut().await,
        };
        drop(caught(|| drop(running.take())));
        if let Err(error) = &ended {
            tracing::debug!(parent: &span, %error, "job ended without a result");
        }
        ended
    }

    /// Accounts for the job that ended, runs `then` under the same lock, and only afterwards wakes
    /// the job's handle.
    fn finish<R>(
        &mut self,
        ended: Option<Ended>,
        then: impl FnOnce(&mut PoolKernel, &mut Wakes<Waker>) -> R,
    ) -> R {
        let number = self.number;
        let (next, ending) = self.shared.with(|kernel, wakes| {
            if let Some(ended) = &ended {
                kernel.finish(number, end_of(ended));
            }
            (then(kernel, wakes), kernel.is_ending())
        });
        match (ended, self.current.take()) {
            (Some(Ok(())), Some(job)) => drop(caught(move || job.announce())),
            (Some(Err(error)), Some(job)) => end(job, error),
            _ => {}
        }
        if ending {
            self.shared.tell_if_ending();
        }
        next
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let number = self.number;
        let orphans = self.shared.with(|kernel, wakes| {
            kernel.remove_worker(number, wakes);
            if kernel.workers() == 0 { kernel.take_unrun() } else { Vec::new() }
        });
        if let Some(job) = self.current.take() {
            end(job, JobError::Aborted);
        }
        orphans.into_iter().for_each(|(_, job)| end(job, JobError::NotRun));
        self.shared.tell_if_ending();
    }
}

fn ready<T>(next: Next<T>) -> Poll<Option<T>> {
    match next {
        Next::Go(next) => Poll::Ready(Some(next)),
        Next::Wait => Poll::Pending,
        Next::Leave => Poll::Ready(None),
    }
}

fn stopped(stop: Stop) -> JobError {
    match stop {
        Stop::Cancel => JobError::Cancelled,
        Stop::Abort => JobError::Aborted,
    }
}

fn end_of(ended: &Ended) -> End {
    match ended {
        Ok(()) => End::Done,
        Err(JobError::Panicked(_)) => End::Panicked,
        Err(JobError::Cancelled) => End::Cancelled,
        Err(JobError::LostPermit) => End::LostPermit,
        Err(JobError::Refused(_)) => End::Refused,
        Err(JobError::NotRun) => End::NotRun,
        Err(JobError::Aborted) => End::Aborted,
        Err(JobError::InsideJob) => unreachable!("a handle refuses to wait; no job ends so"),
    }
}
