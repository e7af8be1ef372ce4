//! Methods of every store that need no part of its own.

use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;

use futures_util::FutureExt;

use super::Store;
use crate::election::{Election, ElectionObserver, ElectionOptions, JobResult, PeriodicJob};
use crate::{
    Error, FencingToken, Holder, Inspection, Kind, ListOptions, MutexOptions, Pages, SemaphoreOptions,
    Ticket, WaitGroupOptions,
};

/// Methods of every [`Store`] that are made of its other methods. Implemented for all stores; not
/// for users to implement.
pub trait StoreExt: Store {
    /// Runs the future that `work` makes, and then [closes](Store::close) the store: after `Ok`,
    /// after an error and after a panic.
    ///
    /// # Errors
    /// The error of the future; otherwise that of `close`.
    ///
    /// # Panics
    /// If the future panics, after the store is closed.
    ///
    /// # Cancel safety
    /// A dropped call drops the future and does not close the store.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// use stanchion::StoreExt;
    ///
    /// let store = stanchion::connect("memory:").await?;
    /// store
    ///     .scope(|store| async {
    ///         let guard = store.mutex("report", Default::default())?.lock().await?;
    ///         guard.run(async { println!("works") }).await
    ///     })
    ///     .await?;
    /// assert!(store.ping().await.is_err(), "it is closed");
    /// # Ok(())
    /// # }
    /// ```
    fn scope<'a, T, E, F, W>(&'a self, work: F) -> impl Future<Output = Result<T, E>>
    where
        F: FnOnce(&'a Self) -> W,
        W: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        async move {
            let done = AssertUnwindSafe(async { work(self).await }).catch_unwind().await;
            let closed = self.close().await;
            match (done, closed) {
                (Ok(Ok(done)), Ok(())) => Ok(done),
                (Ok(Ok(_)), Err(error)) => Err(error.into()),
                (Ok(Err(error)), Ok(())) => Err(error),
                (Ok(Err(error)), Err(also)) => {
                    tracing::warn!(
                        name: "stanchion.store.not_closed",
                        {
                            error.type = also.kind().as_str(),
                            exception.message = ?also,
                        },
                        "the store could not be closed"
                    );
                    Err(error)
                }
                (Err(panic), _) => resume_unwind(panic),
            }
        }
    }

    /// Returns the pages of a listing, one after the other: see [`Store::list`]. No I/O.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use stanchion::{ListOptions, StoreExt};
    ///
    /// let mut pages = store.pages(ListOptions::new());
    /// while let Some(page) = pages.next().await? {
    ///     for listed in page.entries {
    ///         println!("{} {}", listed.kind.as_str(), listed.name);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn pages(&self, options: ListOptions) -> Pages<'_, Self> {
        Pages::new(self, options)
    }

    /// Returns the holders of an object and the number of waiters, as
    /// [`Mutex::inspect`](crate::Mutex::inspect) does: for programs that learn of names by a
    /// [listing](Self::pages). The result is empty for a kind that has no holders.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad name; otherwise as `inspect`.
    ///
    /// # Cancel safety
    /// Nothing changes.
    fn inspect(&self, kind: Kind, name: &str) -> impl Future<Output = crate::Result<Inspection>> + Send {
        async move {
            match kind {
                Kind::Mutex => self.mutex(name, MutexOptions::new())?.inspect().await,
                Kind::Semaphore => self.semaphore(name, SemaphoreOptions::new(1))?.inspect().await,
                Kind::WaitGroup => self.wait_group(name, WaitGroupOptions::new())?.inspect().await,
                Kind::Limiter | Kind::BloomFilter => Ok(Inspection::default()),
            }
        }
    }

    /// Ends the hold of a mutex or a semaphore that was seen with this ticket, and returns whether
    /// there was one. The ticket is `None` where the store did not know it. The holder's guard is
    /// lost ([C9]). `label` names the caller in the [audit event](crate::observe::audit).
    ///
    /// Limitation: without a ticket, a newer holder may be ended instead of the one that was seen.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad name or label; otherwise as
    /// [`Mutex::force_unlock`](crate::Mutex::force_unlock).
    ///
    /// # Cancel safety
    /// A dropped call may have ended the hold.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use stanchion::{Kind, StoreExt};
    ///
    /// let guard = store.mutex("report", Default::default())?.lock().await?;
    /// assert!(store.force_free(Kind::Mutex, "report", guard.ticket(), "an operator").await?);
    /// assert!(!store.force_free(Kind::Mutex, "report", guard.ticket(), "an operator").await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [C9]: crate::contract#c9
    fn force_free(
        &self,
        kind: Kind,
        name: &str,
        ticket: impl Into<Option<Ticket>>,
        label: &str,
    ) -> impl Future<Output = crate::Result<bool>> + Send {
        let ticket = ticket.into();
        async move {
            match (kind, ticket) {
                (Kind::Mutex, Some(ticket)) => {
                    self.mutex(name, MutexOptions::new().label(label))?.force_unlock_of(ticket).await
                }
                (Kind::Mutex, None) => {
                    let mutex = self.mutex(name, MutexOptions::new().label(label))?;
                    let is_unknown = |holder: &Holder| holder.ticket.is_none();
                    if mutex.inspect().await?.holders.iter().any(is_unknown) {
                        mutex.force_unlock().await
                    } else {
                        Ok(false)
                    }
                }
                (Kind::Semaphore, Some(ticket)) => {
                    let semaphore = self.semaphore(name, SemaphoreOptions::new(1).label(label))?;
                    semaphore.force_release(ticket).await
                }
                _ => Ok(false),
            }
        }
    }

    /// Makes a candidate in an election: the holder of the mutex `name` leads. [`Election::run`]
    /// stands for election, runs the future that `lead` makes of the term's fencing token while it
    /// leads, stops it before another candidate leads ([M1]), and stands again. No I/O.
    ///
    /// # Errors
    /// As [`Store::mutex`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use stanchion::{ElectionOptions, StoreExt};
    ///
    /// let election = store.elect("jobs/leader", ElectionOptions::new().label("host a"), |token| async move {
    ///     println!("leads with token {token}");
    /// })?;
    /// let handle = election.handle();
    /// // A service would await `run_while(server)`.
    /// tokio::select! {
    ///     ended = election.run() => ended?,
    ///     changed = async { handle.observe().changes().next().await } => println!("{changed:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [M1]: crate::contract#m1
    fn elect<F, W>(&self, name: &str, options: ElectionOptions, lead: F) -> crate::Result<Election<F>>
    where
        F: FnMut(FencingToken) -> W,
        W: Future<Output = ()>,
    {
        let mutex = self.mutex(name, options.mutex())?;
        Ok(Election::new(mutex, options, lead))
    }

    /// Makes a job that runs once in each `period`, 1 ms to 366 days, on one instance of a service.
    /// All instances run [`PeriodicJob::run`]. The leader, as of [`elect`](Self::elect), runs the
    /// job; another instance takes over when the leader dies, is cut off, or its run fails. Failed
    /// runs are repeated at growing intervals. A run that succeeded is noted at the store, so that
    /// the next leader waits for the rest of the period. No I/O.
    ///
    /// By the store's clock, runs that succeed are due a period apart, to within the time of a
    /// request; each begins when it is due or later. A run that begins late, by less than a period,
    /// does not move the next one. A period without a leader is left out. On a memory store whose
    /// clock a test moves, the job follows that clock.
    ///
    /// Limitation: a run is repeated, with a larger token, if its instance dies or drops
    /// [`run`](PeriodicJob::run) after the effects of the run and before the note, or if the store
    /// loses the note with its data. So the job has to be idempotent, or keep its effects behind a
    /// [fence](crate::Fenced). With effects in Postgres, one transaction can have both: see the
    /// page `jobs` of the guide. Runs do not begin at whole minutes of the clock.
    ///
    /// The job owns the mutex and the limiter `name`: use them for nothing else.
    ///
    /// # Errors
    /// `InvalidArgument` for a period out of range; as [`Store::mutex`] and [`Store::limiter`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use std::time::Duration;
    ///
    /// use stanchion::{ElectionOptions, StoreExt};
    ///
    /// let minute = Duration::from_secs(60);
    /// let report = store.every("jobs/report", minute, ElectionOptions::new().label("host a"), |token| async move {
    ///     println!("makes the report, token {token}");
    ///     std::io::Result::Ok(())
    /// })?;
    /// // A service would await `run_while(server)`.
    /// tokio::time::timeout(minute / 600, report.run()).await.expect_err("it goes on");
    /// # Ok(())
    /// # }
    /// ```
    fn every<F, W>(
        &self,
        name: &str,
        period: Duration,
        options: ElectionOptions,
        job: F,
    ) -> crate::Result<PeriodicJob<F>>
    where
        F: FnMut(FencingToken) -> W,
        W: Future<Output: JobResult>,
    {
        PeriodicJob::new(self, name, period, options, job)
    }

    /// Returns an observer of the election `name`. It is no candidate. No I/O.
    ///
    /// # Errors
    /// As [`Store::mutex`].
    fn observe_election(&self, name: &str) -> crate::Result<ElectionObserver> {
        Ok(ElectionObserver::new(self.mutex(name, ElectionOptions::new().mutex())?))
    }
}

impl<S: Store + ?Sized> StoreExt for S {}
