//! The store, which makes all other objects.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{BloomFilter, BloomOptions};
use super::{Limiter, LimiterOptions, Mutex, Semaphore, WaitGroup};
use crate::{
    Capabilities, Error, ErrorKind, ListOptions, ListPage, MutexOptions, Result, SemaphoreOptions, Stats,
    WaitGroupOptions,
};

/// A store of state: this process, Redis or Postgres.
///
/// Making an object needs no I/O: bad names and options fail here with `InvalidArgument` ([C19]),
/// everything else at the object's first operation. Objects with the same kind and name share their
/// state, whichever process made them; objects of different kinds do not.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> stanchion::Result<()> {
/// use stanchion::SemaphoreOptions;
///
/// let store = stanchion::connect("memory:").await?;
/// let report = store.mutex("report", Default::default())?.lock().await?;
/// let exports = store.semaphore("report", SemaphoreOptions::new(3))?; // another object
/// assert_eq!((exports.available().await?, store.stats().holds), (3, 1));
/// report.release().await
/// # }
/// ```
///
/// [C19]: crate::contract#c19
#[async_trait]
pub trait Store: Debug + Send + Sync {
    /// Returns the mutex with that name.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad name or option; `Unsupported`; `Closed`.
    fn mutex(&self, name: &str, options: MutexOptions) -> Result<Arc<dyn Mutex>>;

    /// Returns the semaphore with that name.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex).
    fn semaphore(&self, name: &str, options: SemaphoreOptions) -> Result<Arc<dyn Semaphore>>;

    /// Returns the wait group with that name.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex).
    fn wait_group(&self, name: &str, options: WaitGroupOptions) -> Result<Arc<dyn WaitGroup>>;

    /// Returns the limiter with that name.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex); also for a quota that cannot be exact ([L11]).
    ///
    /// [L11]: crate::contract#l11
    fn limiter(&self, name: &str, options: LimiterOptions) -> Result<Arc<dyn Limiter>>;

    /// Returns the Bloom filter with that name. A store without Bloom filters need not implement
    /// this method.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex); also for a capacity, rate or time to live outside its range.
    fn bloom_filter(&self, name: &str, options: BloomOptions) -> Result<Arc<dyn BloomFilter>> {
        options.check().and_then(|()| crate::Name::new(name))?;
        let error = Error::new(ErrorKind::Unsupported, "this store does not offer Bloom filters");
        Err(error.context("bloom_filter", self.capabilities().store, name))
    }

    /// Returns the store's view of another namespace: 1 to 64 of `A-Z a-z 0-9 _ . -`, whatever
    /// namespace this view has. Objects of different namespaces share nothing.
    ///
    /// The view shares the connections, the thread and all options of this store ([C28]), and of
    /// objects of the same kind and name in one namespace every view shares the state.
    /// [`close`](Self::close) and [`drain`](Self::drain) concern the namespace that they are called
    /// on; a view of a closed namespace is a new store object. Statements about connections
    /// elsewhere in this documentation count all namespaces together, unless the store names an
    /// exception. A store without [`namespaces`](Capabilities::namespaces) need not implement this
    /// method.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad name; `ConfigMismatch` if the namespace was written with other
    /// parameters; `Closed` if this view is closed; `Unavailable`, `Unknown` or `Unauthorized` if
    /// the store cannot be asked; `Unsupported`.
    ///
    /// # Cancel safety
    /// A dropped call may have noted the parameters of a new namespace.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// let tenants = [store.namespace("tenant-7").await?, store.namespace("tenant-8").await?];
    /// let held = tenants[0].mutex("invoices", Default::default())?.lock().await?;
    /// assert!(tenants[1].mutex("invoices", Default::default())?.try_lock().await?.is_some());
    /// # held.release().await
    /// # }
    /// ```
    ///
    /// [C28]: crate::contract#c28
    async fn namespace(&self, namespace: &str) -> Result<Arc<dyn Store>> {
        let offered = crate::engine::check_namespace(namespace)
            .and_then(|()| Err(Error::new(ErrorKind::Unsupported, "this store does not offer namespaces")));
        offered.map_err(|error| error.context("namespace", self.capabilities().store, namespace))
    }

    /// Returns a page of the names of this view's namespace that have state, with their figures.
    ///
    /// A mutex is listed while it is held or waited for; any other object for as long as the store
    /// keeps a hold, a waiter, a limit, a bucket or bits of it, which is the retention time of an
    /// idle one ([C25]). Listing starts no use: it keeps nothing alive.
    ///
    /// A listing is all pages from the first one; each is asked for with the
    /// [`next`](ListPage::next) of the page before, until there is none;
    /// [`StoreExt::pages`](crate::StoreExt::pages) does that. It is complete as Redis' `SCAN` is: a
    /// name that exists all through the listing is listed at least once; a name that comes or goes
    /// meanwhile may be listed or not; the order is no particular one; a name may be listed twice,
    /// and the caller drops doubles. A listing is not a snapshot: a page may be out of date when
    /// the caller reads it. A page may have somewhat more names than asked for, fewer, or none
    /// although the listing goes on.
    ///
    /// Neither a page nor the memory for it grows with the number of names, and no request holds
    /// the server for long ([C27]). A whole listing costs as much as the server has keys or rows,
    /// also those of other namespaces and programs: it is for operators, not for a program's every
    /// request. A store without [`listing`](Capabilities::listing) need not implement this method.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad option, or a cursor of another store or namespace;
    /// `Unauthorized` if the role may not look: Redis' `SCAN` is a right of its own; `Unavailable`
    /// or `Unknown` if the store cannot be asked; `Closed`; `Unsupported`.
    ///
    /// # Cancel safety
    /// A dropped call has no effect.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use stanchion::{Kind, ListOptions};
    ///
    /// let guard = store.mutex("invoices/42", Default::default())?.lock().await?;
    /// let page = store.list(ListOptions::new().kind(Kind::Mutex).prefix("invoices/")).await?;
    /// for mutex in &page.entries {
    ///     println!("{} has {:?} holders and {:?} waiters", mutex.name, mutex.holders, mutex.waiters);
    /// }
    /// # assert_eq!(page.entries[0].name.as_str(), "invoices/42");
    /// # guard.release().await
    /// # }
    /// ```
    ///
    /// [C25]: crate::contract#c25
    /// [C27]: crate::contract#c27
    async fn list(&self, options: ListOptions) -> Result<ListPage> {
        let offered = options.check().and_then(|()| Err(crate::engine::list_unsupported()));
        offered.map_err(|error| error.context("list", self.capabilities().store, ""))
    }

    /// Returns the capabilities of this store.
    fn capabilities(&self) -> Capabilities;

    /// Returns the present figures of this store object, without I/O: the holds and waiters of this
    /// view's namespace, its requests, and the connections of all namespaces.
    fn stats(&self) -> Stats;

    /// Makes one round trip to the store.
    ///
    /// # Errors
    /// `Unavailable`, `Unknown`, `Unauthorized` or `Closed`.
    async fn ping(&self) -> Result<()>;

    /// Closes the store object ([C12]): refuses new calls with `Closed`, makes live guards lost,
    /// releases their holds, and waits until all queued releases are delivered.
    ///
    /// # Errors
    /// `Timeout` if the store did not accept all releases within 5 s; the end of the leases frees
    /// the rest.
    ///
    /// # Cancel safety
    /// A dropped call has closed the store object; the delivery of releases continues.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// store.close().await?;
    /// let refused = store.ping().await.unwrap_err();
    /// assert_eq!(refused.kind(), stanchion::ErrorKind::Closed);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [C12]: crate::contract#c12
    async fn close(&self) -> Result<()>;

    /// Sends the queued releases of dropped guards and calls, and leaves the store open ([C12]).
    ///
    /// Call it before the end of a program that never drops its store: a store in a `static`, a
    /// leaked store, or one that another thread holds. The drop of a store does the same, for a
    /// time that its builder sets.
    ///
    /// # Errors
    /// `Timeout` if the store did not accept all releases within 5 s.
    ///
    /// # Cancel safety
    /// A dropped call has no effect; the delivery continues.
    ///
    /// [C12]: crate::contract#c12
    async fn drain(&self) -> Result<()> {
        Ok(())
    }

    /// As [`drain`](Self::drain), without a runtime: blocks the thread for `timeout` at most.
    ///
    /// # Errors
    /// `Timeout` if the store did not accept all releases within that time.
    ///
    /// # Examples
    /// ```
    /// use std::sync::{Arc, OnceLock};
    /// use std::time::Duration;
    ///
    /// use stanchion::Store;
    ///
    /// static STORE: OnceLock<Arc<dyn Store>> = OnceLock::new();
    ///
    /// fn at_exit() -> stanchion::Result<()> {
    ///     STORE.get().map_or(Ok(()), |store| store.drain_blocking(Duration::from_secs(1)))
    /// }
    /// # at_exit().unwrap();
    /// ```
    fn drain_blocking(&self, timeout: Duration) -> Result<()> {
        let _ = timeout;
        Ok(())
    }
}
