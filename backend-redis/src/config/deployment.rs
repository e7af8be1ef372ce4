//! Where the servers of a store are, and what leads to them.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{Error, Result};

use crate::access::{Access, Address};
use crate::cluster::{Cluster, Topology};
use crate::given::Given;
use crate::keys::Keyspace;
use crate::link::{Endpoint, Link};
use crate::route::Route;
use crate::sentinel::Sentinels;
use crate::wake::{ClusterWake, RedisWake};

/// The servers.
#[derive(Clone, Debug)]
pub(crate) enum Deployment {
    /// One server.
    Server(Access),
    /// A primary that sentinels announce.
    Sentinel(Arc<Sentinels>),
    /// A cluster, some of whose nodes are known.
    Cluster { access: Access, seeds: Vec<Address> },
    /// Wherever the user's connection leads, and another way there.
    Given { given: Given, wake: Option<Access> },
}

/// What the steps of one process go through.
pub(crate) struct Routes {
    pub(crate) callers: Route,
    /// The engine's own.
    pub(crate) own: Route,
    pub(crate) wake: RedisWake,
    /// Whether `wake` gives hints.
    pub(crate) wakes: bool,
}

impl Deployment {
    /// The way to the servers, not connected yet. `boxes` are the mailboxes of the process.
    pub(crate) fn routes(&self, keyspace: &Keyspace, boxes: Vec<String>, limit: Duration) -> Result<Routes> {
        let one = |endpoint: &Endpoint| Route::One(Link::new(endpoint.clone(), limit));
        let server = |endpoint: Endpoint, boxes: &[String]| Routes {
            callers: one(&endpoint),
            own: one(&endpoint),
            wake: RedisWake::of_server(endpoint, boxes, limit),
            wakes: true,
        };
        Ok(match self {
            Self::Server(access) => server(Endpoint::Server(access.clone()), &boxes),
            Self::Sentinel(sentinels) => server(Endpoint::Sentinel(Arc::clone(sentinels)), &boxes),
            Self::Cluster { access, seeds } => {
                let topology = Arc::new(Topology::new(access.clone(), seeds.clone(), keyspace));
                let route = || Route::Cluster(Cluster::new(Arc::clone(&topology), limit));
                let (callers, own) = (route(), route());
                let wake = RedisWake::of_cluster(ClusterWake::new(topology, boxes, limit));
                Routes { callers, own, wake, wakes: true }
            }
            Self::Given { given, wake: None } => {
                let endpoint = Endpoint::Given(given.clone());
                let (callers, own) = (one(&endpoint), one(&endpoint));
                Routes { callers, own, wake: RedisWake::none(), wakes: false }
            }
            Self::Given { given, wake: Some(access) } => {
                let callers = one(&Endpoint::Given(given.clone()));
                let access = access.clone();
                let through = if given.is_cluster {
                    let seed = access.address().ok_or_else(no_socket)?;
                    Self::Cluster { access, seeds: vec![seed] }
                } else {
                    Self::Server(access)
                };
                Routes { callers, ..through.routes(keyspace, boxes, limit)? }
            }
        })
    }
}

fn no_socket() -> Error {
    Error::invalid_argument("a cluster is not reached through a Unix socket")
}
