//! The store: an engine over the steps.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::clock::now;
use stanchion_core::connect::NetworkOptions;
use stanchion_core::engine::{Engine, Namespaces};
use stanchion_core::runtime::EngineThread;
#[cfg(feature = "bloom")]
use stanchion_core::{BloomFilter, BloomOptions};
use stanchion_core::{
    Capabilities, Error, ErrorKind, Limiter, LimiterOptions, ListOptions, ListPage, Mutex, MutexOptions,
    Result, Semaphore, SemaphoreOptions, Stats, Store, WaitGroup, WaitGroupOptions,
};

use crate::config::RedisBuilder;
use crate::opened::{Opened, StepsOfStore};

/// All primitives on a Redis server, on the primary that sentinels announce, or on a cluster.
///
/// It uses three connections, whatever the number of holds, waiters and
/// [namespaces](Self::namespace): one for the requests of callers, one for the renewals, releases
/// and polls of the engine, and one that waits for wake-ups. On a cluster it uses the first two to
/// each primary, and one for wake-ups for each of the 16 stripes that has waiters. The next request
/// replaces a connection that broke. Where callers of several runtimes use the store, all but one
/// of these have a second connection together.
///
/// While the slot of a stripe is being moved to another node of a cluster, requests on that stripe
/// are not executed (the server answers `TRYAGAIN`); they wait for the end of the move within their
/// time limit.
///
/// # Drop
/// The drop of the last handle, guard or clone waits until queued releases are sent, for
/// [`drain`](RedisBuilder::drain) at most. While the process goes on, they are sent for up to 2 s.
/// The leases free the rest.
#[derive(Clone, Debug)]
pub struct RedisStore {
    engine: Engine,
    opened: Arc<Opened>,
    namespaces: Arc<Namespaces<()>>,
}

impl RedisStore {
    /// Connects to the server of a URL; see [`RedisBuilder::new`] for the parts of a URL.
    ///
    /// # Errors
    /// As [`RedisBuilder::new`] and [`RedisBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder(url)?.connect().await
    }

    /// Returns a builder with the server of a URL.
    ///
    /// # Errors
    /// As [`RedisBuilder::new`].
    pub fn builder(url: &str) -> Result<RedisBuilder> {
        RedisBuilder::new(url)
    }

    /// Returns the store's view of another namespace: 1 to 64 of `A-Z a-z 0-9 _ . -`. It shares the
    /// connections and the thread of this store, and all of its other options ([C28]). Views of one
    /// namespace are clones of one another.
    ///
    /// [`close`](Store::close) and [`drain`](Store::drain) are for the namespace that they are
    /// called on. The drop of the last thing of the store waits for what all namespaces have queued
    /// ([C12]). On a cluster each namespace in which somebody waits has connections of its own for
    /// wake-ups, up to 16.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad name; `ConfigMismatch` if the namespace has another layout;
    /// `Closed` if this store is closed; `Unavailable`, `Unknown` or `Unauthorized` if the server
    /// cannot be asked.
    ///
    /// # Cancel safety
    /// A dropped call may have noted the layout of a new namespace.
    ///
    /// # Examples
    /// ```no_run
    /// use stanchion_core::Store;
    /// use stanchion_redis::RedisStore;
    ///
    /// # async fn run() -> stanchion_core::Result<()> {
    /// let store = RedisStore::connect("redis://127.0.0.1/?namespace=shop").await?;
    /// let tenant = store.namespace("tenant-7").await?;
    /// let guard = tenant.mutex("invoices", Default::default())?.lock().await?;
    /// guard.release().await
    /// # }
    /// ```
    ///
    /// [C12]: stanchion_core::contract#c12
    /// [C28]: stanchion_core::contract#c28
    pub async fn namespace(&self, namespace: &str) -> Result<Self> {
        let opening = self.opened.namespace(namespace);
        let opened = self.namespaces.open(&self.engine, namespace, opening).await;
        let (engine, ()) = opened.map_err(|error| error.context("namespace", "redis", namespace))?;
        Ok(Self { engine, ..self.clone() })
    }
}

impl RedisBuilder {
    /// Connects, checks the server and starts the engine.
    ///
    /// # Errors
    /// - `InvalidArgument` for an option out of range, or if the server is not of the kind that the
    ///   URL names: a server by itself, a node of a cluster, a sentinel.
    /// - `Unavailable`, `Unknown` or `Unauthorized` if the server cannot be asked.
    /// - `UnsafeStore` if the server may evict keys, is a replica, or has no append-only file to
    ///   [wait for](RedisBuilder::fsync).
    /// - `ConfigMismatch` if the namespace has another layout.
    /// - `Unsupported` for a Redis before 6.2, or 7.2 if grants wait for its disk.
    ///
    /// On a cluster every primary is checked. A setting that the user has no right to read is
    /// logged as `unverified` ([C22]).
    ///
    /// [C22]: stanchion_core::contract#c22
    pub async fn connect(self) -> Result<RedisStore> {
        let NetworkOptions { namespace, drain, slow_wait, wrap, .. } = self.options.clone();
        let limit = self.options.request_timeout.max(self.time_to_connect());
        let thread = EngineThread::start().map_err(context)?;
        let (opened, steps) = thread.on(Box::pin(Opened::connect(self))).await.map_err(context)?;
        if let Some(pool) = opened.engine_pool() {
            // Now: it may not be had any more when a lease has to be renewed (C28).
            let connecting =
                async move { pool.send(&redis::cmd("PING").into(), false, now() + limit).await.map(drop) };
            match thread.of_engine(connecting).await.and_then(|connected| connected) {
                Err(error) if error.kind().is_final() => return Err(context(error)),
                // It is made when it is needed.
                _ => {}
            }
        }
        let begun = opened.begun(steps);
        let (opened, namespaces) =
            (Arc::new(opened), Arc::new(Namespaces::new(thread, drain, slow_wait, wrap)));
        let (engine, ()) = namespaces.begin(&namespace, begun).map_err(context)?;
        Ok(RedisStore { engine, opened, namespaces })
    }

    /// Connects and checks the server. Returns the steps, for callers that drive them themselves.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn steps(self) -> Result<StepsOfStore> {
        let (_, steps) = Opened::connect(self).await.map_err(context)?;
        Ok(steps)
    }
}

fn context(error: Error) -> Error {
    error.context("connect", "redis", "")
}

impl RedisStore {
    /// Refuses what an eviction would break.
    fn check_kept(&self, operation: &'static str, name: &str) -> Result<()> {
        if !self.opened.demands.accept_eviction {
            return Ok(());
        }
        let detail = "a store that accepts eviction has limiters only";
        Err(Error::new(ErrorKind::Unsupported, detail).context(operation, "redis", name))
    }
}

#[async_trait]
impl Store for RedisStore {
    fn mutex(&self, name: &str, options: MutexOptions) -> Result<Arc<dyn Mutex>> {
        self.check_kept("mutex", name)?;
        self.engine.mutex(name, options)
    }

    fn semaphore(&self, name: &str, options: SemaphoreOptions) -> Result<Arc<dyn Semaphore>> {
        self.check_kept("semaphore", name)?;
        self.engine.semaphore(name, options)
    }

    fn wait_group(&self, name: &str, options: WaitGroupOptions) -> Result<Arc<dyn WaitGroup>> {
        self.check_kept("wait_group", name)?;
        self.engine.wait_group(name, options)
    }

    fn limiter(&self, name: &str, options: LimiterOptions) -> Result<Arc<dyn Limiter>> {
        self.engine.limiter(name, options)
    }

    #[cfg(feature = "bloom")]
    fn bloom_filter(&self, name: &str, options: BloomOptions) -> Result<Arc<dyn BloomFilter>> {
        self.check_kept("bloom_filter", name)?;
        self.engine.bloom_filter(name, &options)
    }

    async fn namespace(&self, namespace: &str) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(Self::namespace(self, namespace).await?))
    }

    /// Asks by `SCAN`, in requests that each look at about 2,000 keys: O(keys of the server), on a
    /// cluster 16 times O(keys of a node). The user needs the right to `SCAN`, which tells the
    /// names of all keys of the server, whatever keys the user may use otherwise. A page may have
    /// up to 250 names more than it was asked for. After a failover the listing of the server, on a
    /// cluster of the stripe, begins again: names are listed twice, and none is left out.
    async fn list(&self, options: ListOptions) -> Result<ListPage> {
        self.engine.list(options).await
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    fn stats(&self) -> Stats {
        let mut stats = self.engine.stats();
        stats.connections = Some(self.opened.open_connections());
        stats
    }

    async fn ping(&self) -> Result<()> {
        self.engine.ping().await
    }

    async fn close(&self) -> Result<()> {
        self.engine.close().await
    }

    async fn drain(&self) -> Result<()> {
        self.engine.drain().await
    }

    fn drain_blocking(&self, timeout: Duration) -> Result<()> {
        self.engine.drain_blocking(timeout)
    }
}
