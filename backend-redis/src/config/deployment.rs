//! Where the servers of a store are, and the routes to them.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{Error, Result};

use crate::access::{Access, Address};
use crate::client::ClientSettings;
use crate::cluster::{Cluster, Topology};
use crate::keys::Keyspace;
use crate::link::{Endpoint, Link};
use crate::route::Route;
use crate::sentinel::Sentinels;
use crate::user_connection::UserConnection;
use crate::wake::{ClusterWake, RedisWake};

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

/// The routes of one process.
pub(crate) struct Routes {
    pub(crate) callers: Route,
    /// The route of the engine.
    pub(crate) own: Route,
    pub(crate) wake: RedisWake,
    /// Whether `wake` gives hints.
    pub(crate) wakes: bool,
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

    /// Returns the routes to the servers, not connected yet. `boxes` are the mailboxes of the process, `timeout` is the time
    /// limit of a request.
    pub(crate) fn routes(
        &self,
        keyspace: &Keyspace,
        boxes: Vec<String>,
        timeout: Duration,
    ) -> Result<Routes> {
        let one = |endpoint: &Endpoint| Route::One(Link::new(endpoint.clone(), timeout));
        let server = |endpoint: Endpoint, boxes: &[String]| Routes {
            callers: one(&endpoint),
            own: one(&endpoint),
            wake: RedisWake::of_server(endpoint, boxes, timeout),
            wakes: true,
        };
        Ok(match self {
            Self::Server(access) => server(Endpoint::Server(access.clone()), &boxes),
            Self::Sentinel(sentinels) => server(Endpoint::Sentinel(Arc::clone(sentinels)), &boxes),
            Self::Cluster { access, seeds } => {
                let topology = Arc::new(Topology::new(access.clone(), seeds.clone(), keyspace));
                let route = || Route::Cluster(Cluster::new(Arc::clone(&topology), timeout));
                let (callers, own) = (route(), route());
                let wake = RedisWake::of_cluster(ClusterWake::new(topology, boxes, timeout));
                Routes { callers, own, wake, wakes: true }
            }
            Self::UserConnection { connection, wake: None } => {
                let endpoint = Endpoint::UserConnection(connection.clone());
                let (callers, own) = (one(&endpoint), one(&endpoint));
                Routes { callers, own, wake: RedisWake::none(), wakes: false }
            }
            Self::UserConnection { connection, wake: Some(access) } => {
                let callers = one(&Endpoint::UserConnection(connection.clone()));
                let access = access.clone();
                let through = if connection.is_cluster {
                    let seed = access.address().ok_or_else(no_socket)?;
                    Self::Cluster { access, seeds: vec![seed] }
                } else {
                    Self::Server(access)
                };
                Routes { callers, ..through.routes(keyspace, boxes, timeout)? }
            }
        })
    }
}

fn no_socket() -> Error {
    Error::invalid_argument("a cluster is not reached through a Unix socket")
}
