//! A job that runs once in each period, on one instance.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use super::{Election, ElectionHandle, ElectionOptions};
use crate::clock::{now, sleep};
use crate::limiter::Quota;
use crate::{Error, FencingToken, Limiter, LimiterOptions, OnMismatch, Result, Store};

/// Longest period: a year.
const MAXIMUM: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// Tokens of a bucket that come in a second: one for each millisecond.
const RATE: u64 = 1_000;

/// A job that runs once in each period, on one of several instances, made by [`StoreExt::every`](crate::StoreExt::every). It does
/// nothing until [`run`](Self::run).
///
/// # How it is done
/// The instance that leads, as of an [`Election`], runs the job. When a run has succeeded, the leader notes it at the store in a bucket of
/// the same name, a [`Limiter`]: it takes as many tokens as there are milliseconds until the next run. The bucket is full when that is due,
/// by the store's clock. A run whose leader fails before the note leaves the bucket full, and the next leader repeats it.
#[must_use = "a job runs only while `run` is polled"]
pub struct PeriodicJob<F> {
    election: Election<F>,
    schedule: Schedule,
}

/// When the job runs, as the store knows it.
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
        let quota = Quota::per_second(RATE).burst(milliseconds(period));
        let bucket = store.limiter(name, LimiterOptions::new(quota).on_mismatch(OnMismatch::Replace))?;
        let schedule = Schedule { period, quota, pause: options.pause, bucket };
        Ok(Self { election: Election::new(store.mutex(name, options.mutex())?, options, job), schedule })
    }

    /// Returns a handle of this instance, for other tasks: it tells whether this instance leads, and who does, steps down and withdraws.
    #[must_use]
    pub fn handle(&self) -> ElectionHandle {
        self.election.handle()
    }

    /// Runs the job until [`withdraw`](ElectionHandle::withdraw): waits in the queue of instances; as the leader, waits until a run is due, and
    /// runs the job.
    ///
    /// The future of a run is dropped when the lead is lost, before another instance leads ([M1]). A run that fails is told by an event, and
    /// ends the lead: the next instance in the queue repeats it, or this one after its pause. Its effects may be there, so the job
    /// is idempotent or [fenced](crate::Fenced).
    ///
    /// # Errors
    /// As [`Election::run`]. Outages are waited for.
    ///
    /// # Panics
    /// If `job` or its future panics; the lead has ended then.
    ///
    /// # Cancel safety
    /// As [`Election::run`]: a run that is dropped is repeated.
    ///
    /// [M1]: crate::contract#m1
    pub async fn run<W, E>(self) -> Result<()>
    where
        F: FnMut(FencingToken) -> W,
        W: Future<Output = std::result::Result<(), E>>,
        E: fmt::Display,
    {
        let Self { election, schedule } = self;
        let candidate = election.leading(|job| {
            let job = Arc::new(StdMutex::new(job));
            move |token| {
                let (job, schedule) = (Arc::clone(&job), schedule.clone());
                async move {
                    let run = || job.lock().unwrap_or_else(PoisonError::into_inner)(token);
                    schedule.lead(token, run).await
                }
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

impl Schedule {
    /// Runs the job whenever it is due, until a run fails.
    async fn lead<W, E>(&self, token: FencingToken, mut job: impl FnMut() -> W) -> Result<()>
    where
        W: Future<Output = std::result::Result<(), E>>,
        E: fmt::Display,
    {
        // That of an instance with another period, of another version of the program, is no longer in force.
        self.answered(|| self.bucket.set_quota(self.quota)).await?;
        loop {
            self.due().await?;
            let begun = now();
            if let Err(error) = job().await {
                tracing::warn!(
                    name: "stanchion.job.failed",
                    {
                        stanchion.name = self.bucket.name(),
                        stanchion.fencing_token = token.get(),
                        exception.message = %error,
                    },
                    "a run failed, and is repeated"
                );
                return Ok(());
            }
            // After a run that took longer than the period the next one is due.
            let cost = milliseconds(self.period.saturating_sub(begun.elapsed()));
            if cost > 0 {
                // A refusal is a note, too: the bucket was not full. It is that of this call, whose answer was lost, or that of a leader
                // that was overtaken as it made its own.
                self.answered(|| self.bucket.allow_n(cost)).await?;
            }
        }
    }

    /// Waits until the next run is due.
    async fn due(&self) -> Result<()> {
        loop {
            let left = self.answered(|| self.bucket.peek()).await?.reset_after;
            if left.is_zero() {
                return Ok(());
            }
            sleep(left).await;
        }
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

/// Returns a time in whole milliseconds, rounded up.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
