//! How the servers of a store are reached.

use crate::address::Address;
use crate::connector::Connector;
use crate::user_connection::UserConnection;

/// How the servers of a store are reached, as its URL or its user says. The settings are still to
/// come.
#[derive(Clone, Debug)]
pub(crate) enum Connectors {
    /// One server.
    Server(Connector),
    /// The primary of a service that sentinels announce. The connector to it has no address of its
    /// own.
    Sentinel { sentinels: Vec<Connector>, service: String, primary: Connector },
    /// A cluster, some of whose nodes are the seeds.
    Cluster { connector: Connector, seeds: Vec<Address> },
    /// The servers of the user's connection; `wake` leads to them, too.
    UserConnection { connection: UserConnection, wake: Option<Connector> },
}

impl Connectors {
    /// Whether the servers are those of a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        match self {
            Self::Server(_) | Self::Sentinel { .. } => false,
            Self::Cluster { .. } => true,
            Self::UserConnection { connection, .. } => connection.is_cluster,
        }
    }
}
