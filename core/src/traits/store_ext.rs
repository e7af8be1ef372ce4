//! What every store can do beyond its own part.

use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;
use tracing::warn;

use super::Store;
use crate::election::{Election, ElectionObserver, ElectionOptions};
use crate::{Error, FencingToken, ListOptions, Pages};

/// Methods of every [`Store`] that take closures, which a trait object cannot have. Implemented for all stores; not for users to
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
                    warn!(error = %also, "the store could not be closed");
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
    /// // A service would spawn this.
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

    /// Returns an observer of the election `name`, who is no candidate. No I/O.
    ///
    /// # Errors
    /// As [`Store::mutex`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use stanchion::StoreExt;
    ///
    /// assert!(store.observe_election("jobs/leader")?.leader().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    fn observe_election(&self, name: &str) -> crate::Result<ElectionObserver> {
        Ok(ElectionObserver::new(self.mutex(name, ElectionOptions::new().mutex())?))
    }
}

impl<S: Store + ?Sized> StoreExt for S {}
