//! The store: an engine over the steps.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::engine::{Background, Engine, EngineThread};
#[cfg(feature = "bloom")]
use stanchion_core::steps::BloomSteps;
use stanchion_core::steps::{GroupSteps, LimitSteps, PermitSteps, ProcessId, Steps, WakeSource};
#[cfg(feature = "bloom")]
use stanchion_core::{BloomFilter, BloomOptions};
use stanchion_core::{
    Capabilities, Error, ErrorKind, Limiter, LimiterOptions, Mutex, MutexMode, MutexOptions, Result,
    Semaphore, SemaphoreOptions, Store, WaitGroup, WaitGroupOptions,
};

use crate::check::{self, Demands, Expected};
use crate::client::ClientSettings;
use crate::config::{Deployment, RedisBuilder, Routes};
use crate::script::Scripts;
use crate::steps::{Busy, Context, RedisSteps};
use crate::wake::RedisWake;

/// All primitives on a Redis server, on the primary that sentinels announce, or on a cluster.
///
/// It uses three connections, whatever the number of holds and waiters: one for the requests of callers, one for the
/// renewals, releases and polls of the engine, and one that waits for wake-ups. On a cluster it uses the first two to each
/// primary, and one for wake-ups for each of the 16 stripes that has waiters. The next request replaces a connection that
/// broke. Where callers of several runtimes use the store, all but one of these have a second connection together.
///
/// While the slot of a stripe is being moved to another node of a cluster, requests on that stripe are not executed (the
/// server answers `TRYAGAIN`); they wait for the end of the move within their time limit.
///
/// # Drop
/// The drop of the last handle, guard or clone waits until queued releases are sent, for [`drain`](RedisBuilder::drain)
/// at most. While the process goes on, they are sent for up to 2 s. The leases free the rest.
#[derive(Clone, Debug)]
pub struct RedisStore {
    engine: Engine,
    /// The server may evict keys (C22).
    limiters_only: bool,
}

/// The steps of one process, checked and connected, without an engine.
#[derive(Clone, Debug)]
pub struct StepsOfStore {
    /// The steps for callers.
    pub callers: Arc<RedisSteps>,
    /// The same steps over a connection of the engine's own, which is not connected yet.
    pub own: Arc<RedisSteps>,
    /// The wake-ups, which are not connected yet.
    pub wake: Arc<RedisWake>,
    /// What the store offers.
    pub capabilities: Capabilities,
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
}

impl RedisBuilder {
    /// Connects, checks the server and starts the engine.
    ///
    /// # Errors
    /// - `InvalidArgument` for an option out of range, or if the server is not of the kind that the URL names: a server by
    ///   itself, a node of a cluster, a sentinel.
    /// - `Unavailable`, `Unknown` or `Unauthorized` if the server cannot be asked.
    /// - `UnsafeStore` if the server may evict keys, is a replica, or has no append-only file to [wait
    ///   for](RedisBuilder::fsync).
    /// - `ConfigMismatch` if the namespace has another layout.
    /// - `Unsupported` for a Redis before 6.2, or 7.2 if grants wait for its disk.
    ///
    /// On a cluster every primary is checked. A setting that the user has no right to read is logged as `unverified`
    /// ([C22]).
    ///
    /// [C22]: stanchion_core::contract#c22
    pub async fn connect(self) -> Result<RedisStore> {
        let (wrap, drain, namespace) = (self.wrap.clone(), self.drain, Arc::from(self.namespace.as_str()));
        let limiters_only = self.accept_eviction;
        let thread = EngineThread::start().map_err(context)?;
        let StepsOfStore { callers, own, wake, capabilities } = thread.on(Box::pin(self.steps())).await?;
        let wake = capabilities.wake_ups.then_some(wake as Arc<dyn WakeSource>);
        let own =
            Background { wake, namespace, drain, thread: Some(thread), ..Background::new(engine_steps(own)) };
        let engine = Engine::start_wrapped(wrap.as_ref(), capabilities, engine_steps(callers), own);
        Ok(RedisStore { engine: engine.map_err(context)?, limiters_only })
    }

    /// Connects and checks the server. Returns the steps, for callers that drive them themselves.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn steps(self) -> Result<StepsOfStore> {
        let keyspace = self.check().map_err(context)?;
        let process = ProcessId::random();
        let connect_timeout = self.time_to_connect();
        let Self { deployment, request_timeout, retention, durability, accept_eviction, client, .. } = self;
        let is_users = matches!(deployment, Deployment::UserConnection { .. });
        let demands = Demands { accept_eviction, fsync: durability.fsync };
        let expected = Arc::new(Expected::new(&keyspace, deployment.is_cluster(), demands));
        let client = ClientSettings { connect_timeout, expected: Some(Arc::clone(&expected)), ..client };
        let routes =
            deployment.configured(&client).routes(&keyspace, keyspace.boxes(process), request_timeout);
        let Routes { callers, own, wake, wakes } = routes.map_err(context)?;
        let limit = request_timeout.max(connect_timeout);
        let checked = check::servers(&callers, &keyspace, demands, limit).await;
        let server = checked.map_err(|error| context(callers.locate(error)))?;
        expected.begin();
        if wakes && is_users {
            check::same(&callers, &own, &keyspace, process).await.map_err(context)?;
        }
        let (scripts, busy) = (Scripts::new(), Busy::new());
        let shared = Arc::new(Context { keyspace, scripts, process, retention, durability, busy });
        let steps = |route| Arc::new(RedisSteps::new(Arc::clone(&shared), route));
        let mut capabilities = Capabilities::full("redis", MutexMode::Lease);
        capabilities.wait_groups = !accept_eviction;
        capabilities.bloom_filters = cfg!(feature = "bloom") && !accept_eviction;
        capabilities.wake_ups = wakes;
        capabilities.survives_restart = server.survives_restart;
        Ok(StepsOfStore { callers: steps(callers), own: steps(own), wake: Arc::new(wake), capabilities })
    }
}

fn engine_steps(steps: Arc<RedisSteps>) -> Steps {
    let permits = Arc::clone(&steps) as Arc<dyn PermitSteps>;
    let mut all = Steps::new(permits, steps.route().timeout());
    all.groups = Some(Arc::clone(&steps) as Arc<dyn GroupSteps>);
    all.limits = Some(Arc::clone(&steps) as Arc<dyn LimitSteps>);
    #[cfg(feature = "bloom")]
    {
        all.bloom = Some(steps as Arc<dyn BloomSteps>);
    }
    all
}

fn context(error: Error) -> Error {
    error.context("connect", "redis", "")
}

impl RedisStore {
    /// Refuses what an eviction would break.
    fn check_kept(&self, operation: &'static str, name: &str) -> Result<()> {
        if !self.limiters_only {
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

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
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
