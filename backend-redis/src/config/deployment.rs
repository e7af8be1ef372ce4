//! Where the servers of a store are, and the routes to them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use stanchion_core::spi::Chore;
use stanchion_core::{Error, Result};

use crate::access::{Access, Address};
use crate::client::ClientSettings;
use crate::cluster::{Cluster, Nodes, Topology};
use crate::keys::Keyspace;
use crate::link::{Endpoint, Link};
use crate::route::Route;
use crate::sentinel::{Sentinels, SwitchWatch};
use crate::user_connection::UserConnection;
use crate::wake::{ClusterWake, RedisWake, ServerWake};

/// The servers of a store.
#[derive(Clone, Debug)]
pub(crate) enum Deployment {
    /// One server.
    Server(Access),
    /// A primary that sentinels announce.
    Sentinel(Arc<Sentinels>),
    /// A cluster, some of whose nodes are known.
    Cluster { access: Access, seeds: Vec<Address> },
    /// The servers of the user's connection; `wake` is another way to them.
    UserConnection { connection: UserConnection, wake: Option<Access> },
}

/// The way to the servers, for one sort of requests.
#[derive(Clone)]
enum Way {
    One(Arc<Link>),
    Nodes(Arc<Nodes>),
}

impl Way {
    fn nodes(&self) -> Option<&Nodes> {
        match self {
            Self::One(_) => None,
            Self::Nodes(nodes) => Some(nodes),
        }
    }

    fn route(&self, topology: Option<&Arc<Topology>>, keyspace: &Keyspace) -> Route {
        match self {
            Self::One(link) => Route::One(Arc::clone(link)),
            Self::Nodes(nodes) => {
                let topology = topology.map_or_else(|| nodes.topology(keyspace), Arc::clone);
                Route::Cluster(Cluster::new(topology, Arc::clone(nodes)))
            }
        }
    }
}

/// The connections of a store, which all of its namespaces share.
pub(crate) struct Connections {
    callers: Way,
    /// Those of the engine.
    own: Way,
    /// The one for wake-ups; a cluster has those of each namespace.
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

impl Connections {
    /// Returns what the engine's thread does for them.
    pub(crate) fn chores(&self) -> Vec<Arc<dyn Chore>> {
        self.switches.iter().map(|switches| Arc::clone(switches) as Arc<dyn Chore>).collect()
    }

    /// Returns the routes of a namespace.
    pub(crate) fn routes(&self, keyspace: &Keyspace) -> Routes {
        let nodes = self.own.nodes().or_else(|| self.callers.nodes());
        let topology = nodes.map(|nodes| nodes.topology(keyspace));
        let route = |way: &Way| way.route(topology.as_ref(), keyspace);
        Routes { callers: route(&self.callers), own: route(&self.own), topology }
    }

    /// Returns the number of open connections.
    pub(crate) fn open_connections(&self) -> usize {
        let of = |way: &Way| match way {
            Way::One(link) => link.open_connections(),
            Way::Nodes(nodes) => nodes.open_connections(),
        };
        of(&self.callers) + of(&self.own) + self.wake.as_ref().map_or(0, |wake| wake.open_connections())
    }

    /// Whether there are wake-ups.
    pub(crate) fn wakes(&self) -> bool {
        self.wake.is_some() || self.own.nodes().is_some()
    }

    /// Returns the wake-ups of a namespace that these are the routes of. `boxes` are the mailboxes of the process.
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

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Deployment {
    /// Returns the same servers for a client with these settings.
    pub(crate) fn configured(self, client: &ClientSettings) -> Self {
        match self {
            Self::Server(access) => Self::Server(access.configured(client)),
            Self::Sentinel(sentinels) => Self::Sentinel(Arc::new(sentinels.configured(client))),
            Self::Cluster { access, seeds } => Self::Cluster { access: access.configured(client), seeds },
            Self::UserConnection { connection, wake } => {
                Self::UserConnection { connection, wake: wake.map(|access| access.configured(client)) }
            }
        }
    }

    /// Whether the servers are those of a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        match self {
            Self::Server(_) | Self::Sentinel(_) => false,
            Self::Cluster { .. } => true,
            Self::UserConnection { connection, .. } => connection.is_cluster,
        }
    }

    /// Returns the connections to the servers, none of which is made yet. `timeout` is the time limit of a request.
    ///
    /// # Errors
    /// `InvalidArgument` for a cluster behind a Unix socket.
    pub(crate) fn connections(&self, timeout: Duration) -> Result<Connections> {
        let link = |endpoint: &Endpoint| Arc::new(Link::new(endpoint.clone(), timeout));
        let one = |endpoint: &Endpoint| Way::One(link(endpoint));
        let server = |endpoint: Endpoint| {
            let links = [link(&endpoint), link(&endpoint)];
            let [callers, own] = links.clone().map(Way::One);
            let wake = ServerWake::new(endpoint.clone(), timeout, Arc::clone(&links[1]));
            let switches = match &endpoint {
                Endpoint::Sentinel(sentinels) => Some(SwitchWatch::new(sentinels, links, &wake)),
                _ => None,
            };
            Connections { callers, own, wake: Some(wake), switches, timeout }
        };
        let cluster = |access: &Access, seeds: &[Address]| {
            let nodes = || Way::Nodes(Nodes::new(access.clone(), seeds.to_vec(), timeout));
            Connections { callers: nodes(), own: nodes(), wake: None, switches: None, timeout }
        };
        Ok(match self {
            Self::Server(access) => server(Endpoint::Server(access.clone())),
            Self::Sentinel(sentinels) => server(Endpoint::Sentinel(Arc::clone(sentinels))),
            Self::Cluster { access, seeds } => cluster(access, seeds),
            Self::UserConnection { connection, wake } => {
                let endpoint = Endpoint::UserConnection(connection.clone());
                let through = match wake {
                    None => {
                        let (callers, own) = (one(&endpoint), one(&endpoint));
                        Connections { callers, own, wake: None, switches: None, timeout }
                    }
                    Some(access) if connection.is_cluster => {
                        cluster(access, &[access.address().ok_or_else(no_socket)?])
                    }
                    Some(access) => server(Endpoint::Server(access.clone())),
                };
                Connections { callers: one(&endpoint), ..through }
            }
        })
    }
}

fn no_socket() -> Error {
    Error::invalid_argument("a cluster is not reached through a Unix socket")
}
