//! The pool, and how jobs are submitted to it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::job::Blocking;
use crate::job_slot::{JobSlot, Queued};
use crate::owner::Owner;
use crate::shared::Shared;
use crate::submission::{WaitForRoom, queue_job, refused, try_queue_job};
use crate::{Job, JobGroup, JobHandle, PoolBuilder, PoolStats, Refusal, SubmitError, WeakPool};

/// The result of a submission: the handle of the job, or the refused job with the reason.
pub type Submitted<T, J> = Result<JobHandle<T>, SubmitError<J>>;

/// A fixed number of workers and a queue with a fixed number of places: `n` workers are `n` tasks,
/// however many jobs are submitted.
///
/// A clone is another handle of the same pool.
///
/// # Guarantees
/// - At most as many jobs run as there are workers, and at most as many wait as the queue has
///   places. A caller that [submits](Self::submit) beyond that waits, and the job stays in the
///   caller's memory.
/// - Room is given first come, first served, and jobs begin in the order in which they were queued.
/// - Every queued job ends in exactly one way: done, panicked, cancelled, stopped because its
///   permit was lost, refused by the store, never run, or aborted. Its handle returns which, and
///   the [counters](Self::stats) add up.
/// - With a [cap](PoolBuilder::cluster_cap), a job begins only with a permit, which it holds to its
///   end. With a [rate](PoolBuilder::rate), a job begins only when the limiter has admitted it.
///   Both are shared with every pool that names the same object of the same store, in every
///   process.
///
/// # What is not guaranteed
/// Jobs do not *end* in order; a [`JobGroup`] returns results in order. A killed process loses its
/// queued jobs.
///
/// # Inside a job
/// A job that waits for another job of its own pool keeps a worker busy until that job gets one. If
/// the jobs of all workers wait so, none of them ever ends. A call that would wait so is therefore
/// refused, whether a worker is free or not:
///
/// | call inside a job of the same pool | refused with |
/// | --- | --- |
/// | to await a [`JobHandle`] | [`JobError::InsideJob`](crate::JobError::InsideJob) |
/// | [`next`](JobGroup::next), [`join_next`](JobGroup::join_next) or [`join`](JobGroup::join), if a result is to come | [`GroupError::InsideJob`](crate::GroupError::InsideJob) |
/// | [`submit`](Self::submit), [`submit_blocking`](Self::submit_blocking) or [`JobGroup::submit`], if there is no room at once | [`Refusal::InsideJob`] |
/// | [`drain`](Self::drain) | [`DrainError::InsideJob`](crate::DrainError::InsideJob) |
///
/// Everything that ends by itself is allowed: a submission for which there is room,
/// [`try_submit`](Self::try_submit), [`submit_for`](Self::submit_for),
/// [`shutdown`](Self::shutdown), and every call of another pool.
///
/// Ways out: do the work in place, also that of a refused job, which comes back with the error.
/// Return the handle as the job's output, and await it outside. Let a task that the job spawns and
/// does not await wait for the handle. Use a pool of its own for the inner jobs.
///
/// Limitation: the caller is known by its task, or by its thread if it is a blocking job. A task or
/// thread that the job starts is not known as the job: if the job awaits it, and it waits for the
/// pool, they stand still. The same applies to jobs of two pools that wait for each other.
///
/// # Drop
/// Dropping the last handle closes the pool, also a paused one: running jobs finish, and queued
/// jobs never run ([`JobError::NotRun`](crate::JobError::NotRun)). To control the end, use
/// [`drain`](Self::drain) or [`shutdown`](Self::shutdown).
///
/// A clone that a queued job holds is a handle like every other. Let jobs hold a [`WeakPool`]
/// instead: a paused pool begins no job, and so it never ends while its own queue holds the last
/// clones.
#[derive(Clone)]
pub struct WorkerPool {
    owner: Arc<Owner>,
}

impl WorkerPool {
    /// Returns a builder for a pool.
    pub fn builder() -> PoolBuilder {
        PoolBuilder::new()
    }

    pub(crate) fn over(shared: Arc<Shared>) -> Self {
        Self::of(Arc::new(Owner { shared }))
    }

    pub(crate) fn of(owner: Arc<Owner>) -> Self {
        Self { owner }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }

    /// Returns the pool's name, as in spans and events.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared().name
    }

    /// Returns a handle that does not keep the pool open, for jobs that use their own pool.
    #[must_use]
    pub fn downgrade(&self) -> WeakPool {
        WeakPool::new(&self.owner)
    }

    /// Queues a job, waiting for room behind all callers that wait already.
    ///
    /// A queued job that holds a clone of the pool keeps the pool open: let it hold a [`WeakPool`].
    ///
    /// # Errors
    /// [`Refusal::Closed`] if the pool is drained or shut down, also while the call waits.
    /// [`Refusal::InsideJob`] if the caller is a [job of the pool](WorkerPool#inside-a-job) and
    /// would have to wait. The error returns the job.
    ///
    /// # Cancel safety
    /// A dropped call has not queued the job, and the next waiting caller takes its place in line.
    pub fn submit<J: Job>(&self, job: J) -> impl Future<Output = Submitted<J::Output, J>> + Send {
        self.submit_slot(JobSlot::new(job, true, None), WaitForRoom::WithoutLimit)
    }

    /// Queues a job if there is room at once and no other caller waits for room.
    ///
    /// # Errors
    /// [`Refusal::Full`] or [`Refusal::Closed`]. The error returns the job.
    pub fn try_submit<J: Job>(&self, job: J) -> Submitted<J::Output, J> {
        self.try_submit_slot(JobSlot::new(job, true, None))
    }

    /// Queues a job, waiting for room at most `timeout`; zero makes one attempt. A job of the pool
    /// may wait so, too.
    ///
    /// # Errors
    /// [`Refusal::TimedOut`] or [`Refusal::Closed`]. The error returns the job.
    ///
    /// # Cancel safety
    /// As [`submit`](Self::submit).
    pub fn submit_for<J: Job>(
        &self,
        job: J,
        timeout: Duration,
    ) -> impl Future<Output = Submitted<J::Output, J>> + Send {
        let slot = JobSlot::new(job, true, None);
        async move {
            let submitting = self.submit_slot(Arc::clone(&slot), WaitForRoom::WithTimeout);
            match tokio::time::timeout(timeout, submitting).await {
                Ok(submitted) => submitted,
                Err(_) => Err(refused(Refusal::TimedOut, &slot)),
            }
        }
    }

    /// Queues a closure that blocks its thread. It runs on a blocking thread of the runtime
    /// ([`spawn_blocking`](tokio::task::spawn_blocking)) under the same bounds as every other job:
    /// a worker begins it, and waits for it.
    ///
    /// Limitation: a blocking job that has begun cannot be stopped. It runs to its end even if it
    /// is cancelled, its permit is lost or the deadline of a shutdown has come. Until then its
    /// worker stays busy and its permit is held, unless the runtime ends before. If all blocking
    /// threads of the runtime are busy, the job waits for one, and does not learn that its permit
    /// is lost meanwhile: compare the [fencing token](crate::fencing_token) where that matters.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    ///
    /// # Cancel safety
    /// As [`submit`](Self::submit).
    pub fn submit_blocking<F, T>(&self, job: F) -> impl Future<Output = Submitted<T, F>> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let submitting =
            self.submit_slot(JobSlot::new(Blocking(job), false, None), WaitForRoom::WithoutLimit);
        async move { submitting.await.map_err(|error| error.map(|Blocking(job)| job)) }
    }

    /// Queues a closure that blocks its thread, if there is room at once and no other caller waits
    /// for room; see [`submit_blocking`](Self::submit_blocking).
    ///
    /// # Errors
    /// As [`try_submit`](Self::try_submit).
    pub fn try_submit_blocking<F, T>(&self, job: F) -> Submitted<T, F>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let submitted = self.try_submit_slot(JobSlot::new(Blocking(job), false, None));
        submitted.map_err(|error| error.map(|Blocking(job)| job))
    }

    /// Returns an empty group of jobs: results come in order or as the jobs end, and the first
    /// error cancels the rest.
    pub fn group<T, E>(&self) -> JobGroup<T, E>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        JobGroup::new(Arc::clone(self.shared()))
    }

    /// Returns the current state of the pool, and its counters since it was built.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.shared().with(|kernel, _| PoolStats::of(kernel))
    }

    /// Declares its future `Send`, as all waiting methods here do: for a job that returns a
    /// reference, the compiler cannot infer it (<https://github.com/rust-lang/rust/issues/110338>).
    #[expect(clippy::manual_async_fn, reason = "an async function cannot say that it is `Send`")]
    fn submit_slot<J: Job>(
        &self,
        slot: Arc<JobSlot<J>>,
        wait: WaitForRoom,
    ) -> impl Future<Output = Submitted<J::Output, J>> + Send {
        async move {
            let queued: Queued = Arc::<JobSlot<J>>::clone(&slot);
            match queue_job(self.shared(), &queued, wait).await {
                Ok(id) => Ok(JobHandle::new(id, slot, Arc::clone(self.shared()))),
                Err(refusal) => Err(refused(refusal, &slot)),
            }
        }
    }

    fn try_submit_slot<J: Job>(&self, slot: Arc<JobSlot<J>>) -> Submitted<J::Output, J> {
        let queued: Queued = Arc::<JobSlot<J>>::clone(&slot);
        match try_queue_job(self.shared(), &queued) {
            Ok(id) => Ok(JobHandle::new(id, slot, Arc::clone(self.shared()))),
            Err(refusal) => Err(refused(refusal, &slot)),
        }
    }
}

impl fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerPool").field("name", &self.name()).field("stats", &self.stats()).finish()
    }
}
