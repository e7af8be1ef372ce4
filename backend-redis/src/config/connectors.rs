//! How the servers of a store are reached.

use std::sync::Arc;

use crate::address::Address;
use crate::connector::{Connector, ConnectorSettings};
use crate::sentinel::SentinelConnector;
use crate::user_connection::UserConnection;

/// How the servers of a store are reached, as its URL or its user says.
#[derive(Clone, Debug)]
pub(crate) enum Connectors {
    /// One server.
    Server(Connector),
    /// A primary that sentinels announce.
    Sentinel(Arc<SentinelConnector>),
    /// A cluster, some of whose nodes are the seeds.
    Cluster { connector: Connector, seeds: Vec<Address> },
    /// The servers of the user's connection; `wake` leads to them, too.
    UserConnection { connection: UserConnection, wake: Option<Connector> },
}

impl Connectors {
    /// Returns connectors to the same servers with these settings.
    pub(crate) fn configured(self, settings: &ConnectorSettings) -> Self {
        match self {
            Self::Server(connector) => Self::Server(connector.configured(settings)),
            Self::Sentinel(sentinels) => Self::Sentinel(Arc::new(sentinels.configured(settings))),
            Self::Cluster { connector, seeds } => {
                Self::Cluster { connector: connector.configured(settings), seeds }
            }
            Self::UserConnection { connection, wake } => Self::UserConnection {
                connection,
                wake: wake.map(|connector| connector.configured(settings)),
            },
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
}
