//! The store of threads.

use std::sync::Arc;
use std::time::Duration;

use super::BloomFilter;
use super::waiting::wait_in;
use super::{Limiter, Lost, Mutex, PeriodicJob, Semaphore, WaitGroup};
use crate::BloomOptions;
use crate::{
    Capabilities, ElectionOptions, FencingToken, JobResult, LimiterOptions, ListOptions, ListPage,
    MutexOptions, Result, SemaphoreOptions, Stats, WaitGroupOptions,
};

/// A store, as [`stanchion::Store`](crate::Store), for threads. Clones are the same store object. A
/// call that would have to wait inside of a polled task ends with `Unsupported`.
///
/// `From` makes one of an `Arc` of any store; both faces of it share the connections and the
/// queues.
///
/// # Examples
/// ```
/// # fn main() -> stanchion::Result<()> {
/// use std::sync::Arc;
///
/// use stanchion::blocking;
///
/// let store = Arc::new(stanchion::memory::MemoryStore::new());
/// let threads = blocking::Store::from(Arc::clone(&store));
/// let guard = threads.mutex("report", Default::default())?.lock()?; // tasks that lock it by `store` wait
/// # guard.release()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Store(Arc<dyn crate::Store>);

impl Store {
    /// Returns the mutex with that name, without I/O.
    ///
    /// # Errors
    /// As [`stanchion::Store::mutex`](crate::Store::mutex).
    pub fn mutex(&self, name: &str, options: MutexOptions) -> Result<Mutex> {
        self.0.mutex(name, options).map(Mutex::from)
    }

    /// Returns the semaphore with that name, without I/O.
    ///
    /// # Errors
    /// As [`stanchion::Store::semaphore`](crate::Store::semaphore).
    pub fn semaphore(&self, name: &str, options: SemaphoreOptions) -> Result<Semaphore> {
        self.0.semaphore(name, options).map(Semaphore::from)
    }

    /// Returns the wait group with that name, without I/O.
    ///
    /// # Errors
    /// As [`stanchion::Store::wait_group`](crate::Store::wait_group).
    pub fn wait_group(&self, name: &str, options: WaitGroupOptions) -> Result<WaitGroup> {
        self.0.wait_group(name, options).map(WaitGroup::from)
    }

    /// Returns the limiter with that name, without I/O.
    ///
    /// # Errors
    /// As [`stanchion::Store::limiter`](crate::Store::limiter).
    pub fn limiter(&self, name: &str, options: LimiterOptions) -> Result<Limiter> {
        self.0.limiter(name, options).map(Limiter::from)
    }

    /// Returns the Bloom filter with that name, without I/O.
    ///
    /// # Errors
    /// As [`stanchion::Store::bloom_filter`](crate::Store::bloom_filter).
    pub fn bloom_filter(&self, name: &str, options: BloomOptions) -> Result<BloomFilter> {
        self.0.bloom_filter(name, options).map(BloomFilter::from)
    }

    /// Makes a job that runs once in each `period`, 1 ms to 366 days, on one instance of a service,
    /// as [`StoreExt::every`](crate::StoreExt::every), whose documentation applies. All instances
    /// call [`PeriodicJob::run`] in a thread of their own. No I/O.
    ///
    /// The job gets the fencing token and a [`Lost`]. It has to stop at a loss by itself: a thread
    /// cannot be stopped.
    ///
    /// # Errors
    /// As [`StoreExt::every`](crate::StoreExt::every).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> stanchion::Result<()> {
    /// use std::thread;
    /// use std::time::Duration;
    ///
    /// use stanchion::ElectionOptions;
    ///
    /// # let (ran, has_run) = std::sync::mpsc::channel();
    /// let store = stanchion::blocking::connect("memory:")?;
    /// let report = store.every("jobs/report", Duration::from_secs(60), ElectionOptions::new(), move |token, _lost| {
    ///     println!("makes the report, token {token}");
    /// #   ran.send(()).unwrap();
    /// })?;
    /// let job = thread::spawn(|| report.run());
    /// # has_run.recv().unwrap();
    /// // The rest of the program.
    /// store.close()?; // ends the job, too
    /// job.join().unwrap().expect_err("the store is closed");
    /// # Ok(())
    /// # }
    /// ```
    pub fn every<J, R>(
        &self,
        name: &str,
        period: Duration,
        options: ElectionOptions,
        job: J,
    ) -> Result<PeriodicJob<J>>
    where
        J: FnMut(FencingToken, Lost<'_>) -> R,
        R: JobResult,
    {
        crate::PeriodicJob::new(&*self.0, name, period, options, job).map(PeriodicJob)
    }

    /// Returns the store's view of another namespace.
    ///
    /// # Errors
    /// As [`stanchion::Store::namespace`](crate::Store::namespace).
    pub fn namespace(&self, namespace: &str) -> Result<Self> {
        self.blocked("namespace", self.0.namespace(namespace)).map(Self)
    }

    /// Returns a page of the names that have state.
    ///
    /// # Errors
    /// As [`stanchion::Store::list`](crate::Store::list).
    pub fn list(&self, options: ListOptions) -> Result<ListPage> {
        self.blocked("list", self.0.list(options))
    }

    /// Returns the capabilities of this store.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    /// Returns the present figures of this store object, without I/O.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Makes one round trip to the store.
    ///
    /// # Errors
    /// As [`stanchion::Store::ping`](crate::Store::ping).
    pub fn ping(&self) -> Result<()> {
        self.blocked("ping", self.0.ping())
    }

    /// Closes the store object: refuses new calls, makes live guards lost, and waits until all
    /// releases are sent.
    ///
    /// # Errors
    /// As [`stanchion::Store::close`](crate::Store::close); `Unsupported` inside of a polled task,
    /// where the store object is closed and the releases go on.
    pub fn close(&self) -> Result<()> {
        self.blocked("close", self.0.close())
    }

    /// Sends the queued releases of dropped guards and calls, for `timeout` at most, and leaves the
    /// store open.
    ///
    /// # Errors
    /// As [`stanchion::Store::drain_blocking`](crate::Store::drain_blocking).
    pub fn drain(&self, timeout: Duration) -> Result<()> {
        self.0.drain_blocking(timeout)
    }

    /// Calls `work`, and then closes the store: after `Ok`, after an error and after a panic.
    ///
    /// # Errors
    /// The error of `work`; otherwise that of [`close`](Self::close).
    ///
    /// # Panics
    /// If `work` panics, after the store is closed.
    pub fn scope<T, E: From<crate::Error>>(
        &self,
        work: impl FnOnce(&Self) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let closing = Closing(self);
        let done = work(self)?;
        std::mem::forget(closing);
        self.close()?;
        Ok(done)
    }

    fn blocked<T>(&self, operation: &'static str, call: impl Future<Output = Result<T>>) -> Result<T> {
        wait_in(operation, self.capabilities().store, "", call)
    }

    /// Returns the same store for tasks.
    #[must_use]
    pub fn as_async(&self) -> &Arc<dyn crate::Store> {
        &self.0
    }
}

/// Closes a store whose scope ended with an error or a panic.
struct Closing<'a>(&'a Store);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.close() {
            tracing::warn!(
                name: "stanchion.store.not_closed",
                {
                    error.type = error.kind().as_str(),
                    exception.message = ?error,
                },
                "the store could not be closed"
            );
        }
    }
}

impl<S: crate::Store + 'static> From<Arc<S>> for Store {
    fn from(store: Arc<S>) -> Self {
        Self(store)
    }
}

impl From<Arc<dyn crate::Store>> for Store {
    fn from(store: Arc<dyn crate::Store>) -> Self {
        Self(store)
    }
}
