//! A store that was connected and checked: what all of its namespaces share, and the steps of each.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::engine::{Background, Begun};
use stanchion_core::spi::{ProcessId, Steps, WakeSource};
use stanchion_core::{Capabilities, MutexMode, Result};

use crate::check::{self, Demands, Expected};
use crate::config::{Connectors, RedisBuilder};
use crate::connection::ConnectionCheck;
use crate::connector::ConnectorSettings;
use crate::durability::Durability;
use crate::keys::Keyspace;
use crate::pool::Pool;
use crate::script::Scripts;
use crate::steps::{Busy, Context, RedisSteps};
use crate::store_pools::{Routes, StorePools};
use crate::wake::RedisWake;

/// The steps of one process, checked and connected, without an engine.
#[derive(Clone, Debug)]
pub struct StepsOfStore {
    /// The steps for callers.
    pub callers: Arc<dyn Steps>,
    /// The same steps over a connection of the engine's own, which is not connected yet.
    pub own: Arc<dyn Steps>,
    /// The wake-ups, which are not connected yet.
    pub wake: Arc<RedisWake>,
    /// What the store offers.
    pub capabilities: Capabilities,
}

/// What the namespaces of a store object share.
#[derive(Debug)]
pub(crate) struct Opened {
    pools: StorePools,
    expected: Arc<Expected>,
    scripts: Arc<Scripts>,
    retention: Duration,
    durability: Durability,
    pub(crate) demands: Demands,
    survives_restart: Option<bool>,
    wakes: bool,
    /// Whether the lanes of all namespaces lead to the same server.
    shares_servers: bool,
}

impl Opened {
    /// Returns the number of open connections.
    pub(crate) fn open_connections(&self) -> usize {
        self.pools.open_connections()
    }

    /// Returns the pool of the engine's requests, if all names are on one server.
    pub(crate) fn engine_pool(&self) -> Option<Arc<Pool>> {
        self.pools.engine_pool()
    }

    /// Connects and checks the servers. Returns the steps of the builder's namespace, too.
    ///
    /// # Errors
    /// As [`RedisBuilder::connect`].
    pub(crate) async fn connect(builder: RedisBuilder) -> Result<(Self, StepsOfStore)> {
        let keyspace = Arc::new(builder.check()?);
        let connect_timeout = builder.time_to_connect();
        let RedisBuilder { connectors, options, retention, durability, settings, .. } = builder;
        let request_timeout = options.request_timeout;
        let demands = Demands { accept_eviction: builder.accept_eviction, fsync: durability.fsync };
        let is_users = matches!(connectors, Connectors::UserConnection { .. });
        let expected = Arc::new(Expected::new(connectors.is_cluster(), demands));
        let check = Some(Arc::clone(&expected) as Arc<dyn ConnectionCheck>);
        let settings = ConnectorSettings { connect_timeout, check, ..settings };
        let pools = StorePools::new(connectors, &settings, request_timeout)?;
        let process = ProcessId::random();
        let routes = pools.routes(&keyspace);
        let Routes { callers, own, .. } = &routes;
        let limit = request_timeout.max(connect_timeout);
        let checked = check::servers(callers, &keyspace, demands, limit).await;
        let survives_restart = checked.map_err(|error| callers.locate(error))?.survives_restart;
        expected.begin(&keyspace);
        if pools.wakes() && is_users {
            check::same(callers, own, &keyspace, process).await?;
        }
        let wakes = pools.wakes() && check::may_wait(callers, &keyspace).await;
        let scripts = Scripts::shared();
        let shares_servers = routes.callers.has_all_stripes();
        let opened = Self {
            pools,
            expected,
            scripts,
            retention,
            durability,
            demands,
            survives_restart,
            wakes,
            shares_servers,
        };
        let steps = opened.steps(keyspace, process, routes);
        Ok((opened, steps))
    }

    /// Checks another namespace, and returns the parts of its engine.
    ///
    /// # Errors
    /// `InvalidArgument`, `ConfigMismatch`, or the error of a server that could not be asked.
    pub(crate) async fn namespace(&self, namespace: &str) -> Result<Begun<()>> {
        let keyspace = Arc::new(Keyspace::new(namespace)?);
        let routes = self.pools.routes(&keyspace);
        let checked = check::layout(&routes.callers, &keyspace).await;
        checked.map_err(|error| routes.callers.locate(error))?;
        self.expected.begin(&keyspace);
        // An earlier engine of the namespace may have left places in queues that nobody keeps any
        // more.
        Ok(self.begun(self.steps(keyspace, ProcessId::random(), routes)))
    }

    fn steps(&self, keyspace: Arc<Keyspace>, process: ProcessId, routes: Routes) -> StepsOfStore {
        let wake = self.pools.wake(&keyspace, &routes, keyspace.boxes(process));
        let Routes { callers, own, .. } = routes;
        let context = Arc::new(Context {
            keyspace,
            scripts: Arc::clone(&self.scripts),
            process,
            retention: self.retention,
            durability: self.durability,
            busy: Busy::new(),
        });
        let steps = |route| Arc::new(RedisSteps::new(Arc::clone(&context), route)) as Arc<dyn Steps>;
        let mut capabilities = Capabilities::full("redis", MutexMode::Lease);
        capabilities.wait_groups = !self.demands.accept_eviction;
        capabilities.bloom_filters = cfg!(feature = "bloom") && !self.demands.accept_eviction;
        capabilities.wake_ups = self.wakes;
        capabilities.survives_restart = self.survives_restart;
        StepsOfStore { callers: steps(callers), own: steps(own), wake: Arc::new(wake), capabilities }
    }
}

impl Opened {
    /// Returns the parts of an engine.
    pub(crate) fn begun(&self, steps: StepsOfStore) -> Begun<()> {
        let StepsOfStore { callers, own, wake, capabilities } = steps;
        let wake = capabilities.wake_ups.then_some(wake as Arc<dyn WakeSource>);
        let own = Background {
            wake,
            chores: self.pools.chores(),
            shares_servers: self.shares_servers,
            ..Background::new(own)
        };
        Begun { kept: (), capabilities, callers, own }
    }
}
