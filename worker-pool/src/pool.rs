//! The pool, and how jobs come into it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::coop;
use tokio::time::timeout;

use crate::cell::Cell;
use crate::job::Blocking;
use crate::shared::{Queued, Shared};
use crate::turn::{enter, enter_now};
use crate::worker::end;
use crate::{Group, Job, JobError, JobHandle, PoolBuilder, PoolStats, Refusal, SubmitError};

/// What became of a submission: the handle of the job, or the job itself with the reason.
pub type Entered<T, J> = Result<JobHandle<T>, SubmitError<J>>;

/// So many workers and a queue of so many places, and no more: `n` tasks, whatever is submitted.
///
/// A clone is another handle of the same pool.
///
/// # Guarantees
/// - At most as many jobs run as there are workers, and at most as many wait as the queue has places; whoever
///   [submits](Self::submit) beyond that waits, and the memory is the caller's own.
/// - Room is given first come, first served, and jobs begin in the order in which they were queued.
/// - Every job that was queued ends in exactly one way: done, panicked, cancelled, stopped with its permit, never run, or
///   aborted. Its handle tells which, and the [counters](Self::stats) add up.
/// - With a [cap](PoolBuilder::cluster_cap) a job begins only with a permit, which it holds to its end; with a
///   [rate](PoolBuilder::rate) only in its turn. Both are shared with every pool that names the same object of the same
///   store, in whatever process.
///
/// # What is not guaranteed
/// Jobs do not *end* in order; a [`Group`] gives results in order. A process that is killed loses what is queued.
///
/// # Drop
/// Dropping the last handle closes the pool: what runs finishes, and what is queued never runs
/// ([`JobError::NotRun`]). [`drain`](Self::drain) and [`shutdown`](Self::shutdown) tell more.
#[derive(Clone)]
pub struct WorkerPool {
    owner: Arc<Owner>,
}

/// The last of these closes the pool; workers and handles of jobs hold none.
struct Owner {
    shared: Arc<Shared>,
}

impl WorkerPool {
    /// A pool with options of its own.
    pub fn builder() -> PoolBuilder {
        PoolBuilder::new()
    }

    pub(crate) fn over(shared: Arc<Shared>) -> Self {
        Self { owner: Arc::new(Owner { shared }) }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }

    /// The pool's name, as in spans and events.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared().name
    }

    /// Queues a job, waiting for room behind all who wait already.
    ///
    /// # Errors
    /// [`Refusal::Closed`] if the pool is drained or shut down, also while it waits. The job comes back.
    ///
    /// # Cancel safety
    /// A dropped call has not queued the job, and its place among those who wait goes to the next.
    pub fn submit<J: Job>(&self, job: J) -> impl Future<Output = Entered<J::Output, J>> + Send {
        self.enter(Cell::new(job, true, None))
    }

    /// Queues a job if there is room at once and nobody waits for it.
    ///
    /// # Errors
    /// [`Refusal::Full`] or [`Refusal::Closed`]. The job comes back.
    pub fn try_submit<J: Job>(&self, job: J) -> Entered<J::Output, J> {
        self.enter_now(Cell::new(job, true, None))
    }

    /// Queues a job, waiting for room at most this long; zero is one attempt.
    ///
    /// # Errors
    /// [`Refusal::TimedOut`] or [`Refusal::Closed`]. The job comes back.
    ///
    /// # Cancel safety
    /// As [`submit`](Self::submit).
    pub fn submit_for<J: Job>(
        &self,
        job: J,
        limit: Duration,
    ) -> impl Future<Output = Entered<J::Output, J>> + Send {
        let cell = Cell::new(job, true, None);
        async move {
            match timeout(limit, self.enter(Arc::clone(&cell))).await {
                Ok(entered) => entered,
                Err(_) => Err(refused(Refusal::TimedOut, &cell)),
            }
        }
    }

    /// Queues a closure that blocks its thread. It runs on a thread of the runtime's
    /// ([`spawn_blocking`](tokio::task::spawn_blocking)) under the same bounds as every other job: a worker begins it, and
    /// waits for it.
    ///
    /// What is *not* guaranteed: that it stops. Once begun it runs to its end, whether it is cancelled, its permit is
    /// lost or the pool's deadline has come; until then its worker stays taken and its permit is held, unless the runtime
    /// ends before. Where all of the runtime's blocking threads are taken it waits for one, and does not hear if its
    /// permit is lost meanwhile: compare the [fencing token](crate::fencing_token) where that matters.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    ///
    /// # Cancel safety
    /// As [`submit`](Self::submit).
    pub fn submit_blocking<F, T>(&self, job: F) -> impl Future<Output = Entered<T, F>> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let entering = self.enter(Cell::new(Blocking(job), false, None));
        async move { entering.await.map_err(|error| error.map(|Blocking(job)| job)) }
    }

    /// Queues a closure that blocks its thread, if there is room at once and nobody waits for it; see
    /// [`submit_blocking`](Self::submit_blocking).
    ///
    /// # Errors
    /// As [`try_submit`](Self::try_submit).
    pub fn try_submit_blocking<F, T>(&self, job: F) -> Entered<T, F>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let entered = self.enter_now(Cell::new(Blocking(job), false, None));
        entered.map_err(|error| error.map(|Blocking(job)| job))
    }

    /// A group of jobs whose results come in order, and whose first error cancels the rest.
    pub fn group<T, E>(&self) -> Group<T, E>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        Group::new(Arc::clone(self.shared()))
    }

    /// What the pool does at this instant, and what it has done since it was built.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.shared().with(|kernel, _| PoolStats::of(kernel))
    }

    /// It says that it is `Send`, here and in all that waits: callers whose job gives a reference cannot find that out
    /// by looking inside (<https://github.com/rust-lang/rust/issues/110338>).
    #[expect(clippy::manual_async_fn, reason = "an async function cannot say that it is `Send`")]
    fn enter<J: Job>(&self, cell: Arc<Cell<J>>) -> impl Future<Output = Entered<J::Output, J>> + Send {
        async move {
            // Whoever submits in a loop lets other tasks of the thread run.
            coop::consume_budget().await;
            let queued: Queued = Arc::<Cell<J>>::clone(&cell);
            match enter(self.shared(), &queued, None).await {
                Ok(id) => Ok(JobHandle::new(id, cell, Arc::clone(self.shared()))),
                Err(refusal) => Err(refused(refusal, &cell)),
            }
        }
    }

    fn enter_now<J: Job>(&self, cell: Arc<Cell<J>>) -> Entered<J::Output, J> {
        let queued: Queued = Arc::<Cell<J>>::clone(&cell);
        match enter_now(self.shared(), &queued) {
            Ok(id) => Ok(JobHandle::new(id, cell, Arc::clone(self.shared()))),
            Err(refusal) => Err(refused(refusal, &cell)),
        }
    }
}

/// Gives a job back that was not queued.
pub(crate) fn refused<J: Job>(refusal: Refusal, cell: &Cell<J>) -> SubmitError<J> {
    SubmitError::new(refusal, cell.take().expect("only a worker takes a job, and none has seen this one"))
}

impl fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerPool").field("name", &self.name()).field("stats", &self.stats()).finish()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let unrun = self.shared.with(|kernel, wakes| {
            kernel.close(wakes);
            kernel.take_unrun()
        });
        unrun.into_iter().for_each(|(_, job)| end(job, JobError::NotRun));
    }
}
