//! A job that runs once in each period, on one instance.

use std::any::Any;
use std::fmt;
use std::future::{Future, pending};
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::yield_now;

use super::candidate::{Finishing, while_running};
use super::{Election, ElectionHandle, ElectionOptions, JobResult};
use crate::clock::{Instant, now, sleep};
use crate::limiter::Quota;
use crate::{Error, FencingToken, Limiter, LimiterOptions, MutexGuard, OnMismatch, Result, Store};

/// Maximum period: a year.
const MAXIMUM: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// Tokens of a bucket that come in a second: one for each microsecond.
const RATE: u64 = 1_000_000;

/// Minimum interval before a failed run or request is repeated: the pause of the options may be
/// shorter.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// Maximum interval before a failed run is repeated.
const LAST_RETRY: Duration = Duration::from_secs(5 * 60);

/// A job that runs once in each period, on one of several instances, made by
/// [`StoreExt::every`](crate::StoreExt::every). It does nothing until [`run`](Self::run).
///
/// # How it is done
/// The instance that leads, as of an [`Election`], runs the job. When a run has succeeded, the
/// leader notes it at the store in a bucket of the same name, a [`Limiter`]: it takes as many
/// tokens as there are microseconds until the next run, a period after the one that was due. The
/// bucket is full when that run is due, by the store's clock. A run whose leader fails before the
/// note leaves the bucket full, and the next leader repeats it.
#[must_use = "a job runs only while `run` is polled"]
pub struct PeriodicJob<F> {
    election: Election<F>,
    schedule: Schedule,
}

/// The schedule of the job, as the store keeps it.
#[derive(Clone, Debug)]
struct Schedule {
    period: Duration,
    quota: Quota,
    pause: Duration,
    /// The bucket that is full when the next run is due.
    bucket: Arc<dyn Limiter>,
}

impl<F> PeriodicJob<F> {
    pub(crate) fn new(
        store: &(impl Store + ?Sized),
        name: &str,
        period: Duration,
        options: ElectionOptions,
        job: F,
    ) -> Result<Self> {
        if period < Duration::from_millis(1) || period > MAXIMUM {
            return Err(Error::invalid_argument(format!(
                "a period is from 1 ms to 366 days, not {period:?}"
            )));
        }
        let quota = Quota::per_second(RATE).burst(microseconds(period));
        let bucket = store.limiter(name, LimiterOptions::new(quota).on_mismatch(OnMismatch::Replace))?;
        let schedule = Schedule { period, quota, pause: options.pause.max(FIRST_RETRY), bucket };
        Ok(Self { election: Election::new(store.mutex(name, options.mutex())?, options, job), schedule })
    }

    /// Returns a handle of this instance, for other tasks: it shows whether this instance leads,
    /// observes the election, steps down and withdraws.
    #[must_use]
    pub fn handle(&self) -> ElectionHandle {
        self.election.handle()
    }

    /// Runs the job until [`withdraw`](ElectionHandle::withdraw): waits in the queue of instances;
    /// as the leader, waits until a run is due, and runs the job.
    ///
    /// The future of a run is dropped when the lead is lost, before another instance leads ([M1]).
    /// A run that fails or panics is logged by an event and ends the lead: the next instance in the
    /// queue repeats it, after an interval that is noted at the store. The interval is the `pause`
    /// of the options, and doubles with each further failure of the same instance, up to the period
    /// or 5 minutes. Effects of the failed run may be there, so the job is idempotent or
    /// [fenced](crate::Fenced).
    ///
    /// # Errors
    /// As [`Election::run`]. Outages are waited for.
    ///
    /// # Cancel safety
    /// As [`Election::run`]: a run that is dropped is repeated.
    ///
    /// [M1]: crate::contract#m1
    pub async fn run<W>(self) -> Result<()>
    where
        F: FnMut(FencingToken) -> W,
        W: Future<Output: JobResult>,
    {
        self.run_with(|job, guard| job(guard.fencing_token())).await
    }

    /// Runs the job while `work` runs, such as the server of the same program (axum's `serve(…)` as
    /// it is): as [`run`](Self::run), in one task with it. When `work` is done,
    /// [withdraws](ElectionHandle::withdraw), and returns what `work` returned: a run that is under
    /// way then is dropped, and repeated by another instance. If the job ends before `work`, since
    /// its handle withdrew or the store was closed, `work` goes on.
    ///
    /// # Errors
    /// As [`run`](Self::run), without `Closed`; `work` is dropped then.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # async fn serve() -> std::io::Result<()> { Ok(()) }
    /// # let store = stanchion::connect("memory:").await?;
    /// use std::time::Duration;
    ///
    /// use stanchion::{ElectionOptions, StoreExt};
    ///
    /// let report = store.every("jobs/report", Duration::from_secs(60), ElectionOptions::new(), async |_token| {
    ///     println!("makes the report");
    /// })?;
    /// report.run_while(serve()).await??; // the outer error is the job's, the inner one the server's
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_while<W, S>(self, work: S) -> Result<S::Output>
    where
        F: FnMut(FencingToken) -> W,
        W: Future<Output: JobResult>,
        S: IntoFuture,
    {
        let handle = self.handle();
        while_running(self.run(), handle, work).await
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn name(&self) -> &str {
        self.schedule.bucket.name()
    }

    /// As [`run`](Self::run); `call` calls the job.
    pub(crate) async fn run_with<W>(self, call: impl Fn(&mut F, &MutexGuard) -> W + Copy) -> Result<()>
    where
        W: Future<Output: JobResult>,
    {
        let Self { election, schedule } = self;
        let candidate = election.leading(|job, finishing| {
            let job = Arc::new(StdMutex::new(job));
            let failures = Arc::new(AtomicU32::new(0));
            move |guard: &Arc<MutexGuard>| {
                let (job, failures, guard) = (Arc::clone(&job), Arc::clone(&failures), Arc::clone(guard));
                let term = Term { schedule: schedule.clone(), finishing: finishing.clone(), guard, failures };
                let run =
                    move |guard: &_| call(&mut job.lock().unwrap_or_else(PoisonError::into_inner), guard);
                async move { term.lead(run).await }
            }
        });
        candidate.stand().await
    }
}

impl<F> fmt::Debug for PeriodicJob<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeriodicJob")
            .field("election", &self.election)
            .field("schedule", &self.schedule)
            .finish()
    }
}

/// One term of the leader.
struct Term {
    schedule: Schedule,
    finishing: Finishing,
    guard: Arc<MutexGuard>,
    /// Runs of this instance that have failed since one has succeeded.
    failures: Arc<AtomicU32>,
}

impl Term {
    /// Runs the job whenever it is due, until a run fails.
    async fn lead<W>(&self, mut job: impl FnMut(&MutexGuard) -> W) -> Result<()>
    where
        W: Future<Output: JobResult>,
    {
        let Self { schedule, failures, .. } = self;
        let mut is_old = !schedule.begin().await?;
        loop {
            let due = schedule.due().await?;
            // A closure that has panicked is called again, as that of a task of tokio is not: the
            // next run may succeed.
            let run = AssertUnwindSafe(async { job(&self.guard).await }).catch_unwind().await;
            if !self.guard.is_held() {
                // It was lost while this thread was at work: the note is another instance's, and
                // this term is about to be dropped.
                pending::<()>().await;
            }
            let failure = match run {
                Ok(result) => result.failure(),
                Err(panic) => Some(format!("it panicked: {}", panic_text(&*panic))),
            };
            let Some(failure) = failure else {
                failures.store(0, Ordering::Relaxed);
                self.note(due, schedule.period, mem::take(&mut is_old)).await?;
                // Where no step waits, as on the memory store, and the next run is due, orders are
                // seen here.
                yield_now().await;
                continue;
            };
            let retry = schedule.retry(failures.fetch_add(1, Ordering::Relaxed));
            tracing::warn!(
                name: "stanchion.job.failed",
                {
                    stanchion.name = schedule.bucket.name(),
                    stanchion.fencing_token = self.guard.fencing_token().get(),
                    stanchion.job.retry_delay = retry.as_secs_f64(),
                    exception.message = %failure,
                },
                "a run failed, and is repeated"
            );
            return self.note(now(), retry, is_old).await;
        }
    }

    /// Notes at the store that the next run is due a time after `since`: the bucket is not full
    /// until then. Only this leader makes notes, so a bucket that is not full after an answer was
    /// lost has this one.
    ///
    /// `is_old` if the bucket may have the period of another version.
    async fn note(&self, since: Instant, time: Duration, is_old: bool) -> Result<()> {
        let Schedule { bucket, pause, quota, .. } = &self.schedule;
        loop {
            // After a run that took longer than the period the next one is due.
            let cost = microseconds(time.saturating_sub(now().saturating_duration_since(since)));
            if cost == 0 {
                return Ok(());
            }
            // A refusal is a note, too: that of a leader that was overtaken as it made its own.
            let noted = async {
                if bucket.peek().await?.reset_after.is_zero() {
                    if is_old {
                        bucket.set_quota(*quota).await?;
                        bucket.reset().await?;
                    }
                    bucket.allow_n(cost).await.map(drop)
                } else {
                    Ok(())
                }
            };
            match self.finishing.step(noted).await {
                Err(error) if error.kind().is_retryable() => sleep(*pause).await,
                noted => return noted,
            }
        }
    }
}

impl Schedule {
    /// Returns the interval before a failed run is repeated, after a number of failures.
    fn retry(&self, failures: u32) -> Duration {
        let doubled = self.pause.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
        doubled.min(LAST_RETRY.max(self.pause)).min(self.period)
    }

    /// Puts the period in force in the place of another version's; `false` if a run is due by that
    /// one. It is due by a longer one, too, and the bucket stays as it is until the run is noted.
    async fn begin(&self) -> Result<bool> {
        if self.answered(|| self.bucket.peek()).await?.reset_after.is_zero() {
            return Ok(false);
        }
        self.answered(|| self.bucket.set_quota(self.quota)).await?;
        Ok(true)
    }

    /// Waits until the next run is due. Returns when it was: a run that begins a little late does
    /// not move the ones that follow. One that was due for a period or longer is due now.
    async fn due(&self) -> Result<Instant> {
        let (asked, left) =
            self.answered(async || Ok((now(), self.bucket.peek().await?.reset_after))).await?;
        if left.is_zero() {
            return Ok(now());
        }
        self.answered(|| self.bucket.until_full()).await?;
        let (now, due) = (now(), asked.checked_add(left));
        // It is later than now where a test moves the clock, and where the bucket was reset.
        let is_recent = |due: &Instant| *due <= now && now - *due < self.period;
        Ok(due.filter(is_recent).unwrap_or(now))
    }

    /// Asks the store until it answers.
    async fn answered<T, W>(&self, ask: impl Fn() -> W) -> Result<T>
    where
        W: Future<Output = Result<T>>,
    {
        loop {
            match ask().await {
                Err(error) if error.kind().is_retryable() => sleep(self.pause).await,
                answer => return answer,
            }
        }
    }
}

/// Returns the text of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}

/// Returns a time in whole microseconds, rounded up.
fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}
