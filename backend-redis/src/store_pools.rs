//! The pools of a store, and the routes of each namespace over them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use stanchion_core::spi::Chore;
use stanchion_core::{Error, Result};

use crate::cluster::{Cluster, NodePools, Topology};
use crate::config::Connectors;
use crate::connector::{Connect, Connector, ConnectorSettings};
use crate::keys::Keyspace;
use crate::pool::Pool;
use crate::route::Route;
use crate::sentinel::{SentinelConnector, SwitchWatch};
use crate::wake::{ClusterWake, RedisWake, ServerWake};

/// The pools for one sort of requests: of callers, or of the engine.
enum Pools {
    One(Arc<Pool>),
    Nodes(Arc<NodePools>),
}

impl Pools {
    fn nodes(&self) -> Option<&NodePools> {
        match self {
            Self::One(_) => None,
            Self::Nodes(nodes) => Some(nodes),
        }
    }

    fn open_connections(&self) -> usize {
        match self {
            Self::One(pool) => pool.open_connections(),
            Self::Nodes(nodes) => nodes.open_connections(),
        }
    }

    fn route(&self, topology: Option<&Arc<Topology>>, keyspace: &Keyspace) -> Route {
        match self {
            Self::One(pool) => Route::One(Arc::clone(pool)),
            Self::Nodes(nodes) => {
                let topology = topology.map_or_else(|| nodes.topology(keyspace), Arc::clone);
                Route::Cluster(Cluster::new(topology, Arc::clone(nodes)))
            }
        }
    }
}

/// The pools of a store, which all of its namespaces share.
pub(crate) struct StorePools {
    callers: Pools,
    /// Those of the engine.
    own: Pools,
    /// The connection for wake-ups; a cluster has those of each namespace.
    wake: Option<Arc<ServerWake>>,
    /// Behind sentinels.
    switches: Option<Arc<SwitchWatch>>,
    timeout: Duration,
}

/// The routes of one namespace.
pub(crate) struct Routes {
    pub(crate) callers: Route,
    /// The route of the engine.
    pub(crate) own: Route,
    topology: Option<Arc<Topology>>,
}

impl StorePools {
    /// Makes the pools, which have not connected yet. `timeout` is the time limit of a request.
    ///
    /// # Errors
    /// `InvalidArgument` for a cluster behind a Unix socket.
    pub(crate) fn new(
        connectors: Connectors,
        settings: &ConnectorSettings,
        timeout: Duration,
    ) -> Result<Self> {
        Ok(match connectors {
            Connectors::Server(connector) => {
                Self::of_server(Arc::new(connector.configured(settings)), None, timeout)
            }
            Connectors::Sentinel { sentinels, service, primary } => {
                let sentinels = SentinelConnector::new(&sentinels, service, &primary, settings);
                let sentinels = Arc::new(sentinels);
                let connector = Arc::clone(&sentinels) as Arc<dyn Connect>;
                Self::of_server(connector, Some(&sentinels), timeout)
            }
            Connectors::Cluster { connector, seeds } => {
                let connector = connector.configured(settings);
                let nodes = || NodePools::new(connector.clone(), seeds.clone(), timeout);
                Self::without_wake(Pools::Nodes(nodes()), Pools::Nodes(nodes()), timeout)
            }
            Connectors::UserConnection { connection, wake } => {
                let pool = || Pools::One(Arc::new(Pool::of_user(connection.clone(), timeout)));
                let through = match wake {
                    None => Self::without_wake(pool(), pool(), timeout),
                    Some(connector) => {
                        Self::new(beside(connector, connection.is_cluster)?, settings, timeout)?
                    }
                };
                Self { callers: pool(), ..through }
            }
        })
    }

    /// Makes the pools to one server, which sentinels may announce.
    fn of_server(
        connector: Arc<dyn Connect>,
        sentinels: Option<&Arc<SentinelConnector>>,
        timeout: Duration,
    ) -> Self {
        let callers = Pool::new(Arc::clone(&connector), timeout);
        let own = Arc::new(callers.beside());
        let pools = [Arc::new(callers), own];
        let [callers, own] = pools.clone().map(Pools::One);
        let wake = ServerWake::new(connector, timeout, Arc::clone(&pools[1]));
        let switches = sentinels.map(|sentinels| SwitchWatch::new(sentinels, pools, &wake));
        Self { callers, own, wake: Some(wake), switches, timeout }
    }

    fn without_wake(callers: Pools, own: Pools, timeout: Duration) -> Self {
        Self { callers, own, wake: None, switches: None, timeout }
    }

    /// Returns the pool of the engine's requests, if there is one server.
    pub(crate) fn engine_pool(&self) -> Option<Arc<Pool>> {
        match &self.own {
            Pools::One(pool) => Some(Arc::clone(pool)),
            Pools::Nodes(_) => None,
        }
    }

    /// Returns what the engine's thread does for them.
    pub(crate) fn chores(&self) -> Vec<Arc<dyn Chore>> {
        self.switches.iter().map(|switches| Arc::clone(switches) as Arc<dyn Chore>).collect()
    }

    /// Returns the routes of a namespace.
    pub(crate) fn routes(&self, keyspace: &Keyspace) -> Routes {
        let nodes = self.own.nodes().or_else(|| self.callers.nodes());
        let topology = nodes.map(|nodes| nodes.topology(keyspace));
        let route = |pools: &Pools| pools.route(topology.as_ref(), keyspace);
        Routes { callers: route(&self.callers), own: route(&self.own), topology }
    }

    /// Returns the number of open connections.
    pub(crate) fn open_connections(&self) -> usize {
        let wake = self.wake.as_ref().map_or(0, |wake| wake.open_connections());
        self.callers.open_connections() + self.own.open_connections() + wake
    }

    /// Whether there are wake-ups.
    pub(crate) fn wakes(&self) -> bool {
        self.wake.is_some() || self.own.nodes().is_some()
    }

    /// Returns the wake-ups of a namespace that these are the routes of. `boxes` are the mailboxes
    /// of the process.
    pub(crate) fn wake(&self, keyspace: &Keyspace, routes: &Routes, boxes: Vec<String>) -> RedisWake {
        match (&self.wake, self.own.nodes().and(routes.topology.as_ref())) {
            (Some(server), _) => RedisWake::of_server(server, keyspace, boxes),
            (None, Some(topology)) => {
                RedisWake::of_cluster(ClusterWake::new(Arc::clone(topology), boxes, self.timeout))
            }
            (None, None) => RedisWake::none(),
        }
    }
}

/// Returns how the servers of a user's connection are reached beside it.
fn beside(connector: Connector, is_cluster: bool) -> Result<Connectors> {
    if !is_cluster {
        return Ok(Connectors::Server(connector));
    }
    let seed = connector
        .address()
        .ok_or_else(|| Error::invalid_argument("a cluster is not reached through a Unix socket"))?;
    Ok(Connectors::Cluster { connector, seeds: vec![seed] })
}

impl fmt::Debug for StorePools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorePools").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
