//! What every store can do beyond its own part.

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

/// Methods of every [`Store`] that need nothing of a store but its own ones. Implemented for all stores; not for users to
/// implement.
pub trait StoreExt: Store {
    /// Runs the future that `work` makes, and then [closes](Store::close) the store: after `Ok`, after an error and after a panic.
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

    /// Returns who holds an object of a kind, and how many wait, as [`Mutex::inspect`](crate::Mutex::inspect) and its like do: for programs that learn of
    /// names by a [listing](Self::pages). For a kind that has no holders nothing is seen.
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

    /// Ends the hold of a mutex or a semaphore that was seen with this ticket, `None` where the store did not know it ([C9]); returns
    /// whether it was ended. Its holder is told. `label` says in the [audit event](crate::observe::audit) who does it.
    ///
    /// What is *not* guaranteed: where the store did not know the ticket, a holder that came since then is not told from the one that was
    /// seen.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad name or label; otherwise as [`Mutex::force_unlock`](crate::Mutex::force_unlock).
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

    /// Makes a candidate in an election: the holder of the mutex `name` leads. [`Election::run`] stands for election, runs the
    /// future that `lead` makes of the term's fencing token while it leads, stops it before another candidate leads ([M1]), and
    /// stands again. No I/O.
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

    /// Makes a job that runs once in each `period`, 1 ms to 366 days, on one instance of a service. All instances run
    /// [`PeriodicJob::run`]: the one that leads, as of [`elect`](Self::elect), runs the job; another one takes over when it dies, is cut off, or
    /// its run fails. Failed runs are repeated at growing intervals. When a run has succeeded, that is noted at the store, so that whoever leads next waits for the rest of the period. No
    /// I/O.
    ///
    /// By the store's clock, at least a period lies between the beginnings of two runs that succeed. A period in which nobody leads is
    /// left out.
    ///
    /// What is *not* guaranteed: a run whose instance dies or drops [`run`](PeriodicJob::run) after the run's effects and before the note is repeated, with a larger token, and a store that
    /// loses its data loses the note: the job is idempotent, or keeps its effects behind a [fence](crate::Fenced). With effects in Postgres,
    /// a transaction can have both, see the page `jobs` of the guide. Runs do not begin at whole minutes of the clock.
    ///
    /// The mutex and the limiter `name` are those of the job: use them for nothing else.
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

    /// Returns an observer of the election `name`, who is no candidate. No I/O.
    ///
    /// # Errors
    /// As [`Store::mutex`].
    fn observe_election(&self, name: &str) -> crate::Result<ElectionObserver> {
        Ok(ElectionObserver::new(self.mutex(name, ElectionOptions::new().mutex())?))
    }
}

impl<S: Store + ?Sized> StoreExt for S {}
