//! The connections to the nodes of a cluster.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::topology::Topology;
use crate::address::Address;
use crate::connector::Connector;
use crate::keys::Keyspace;
use crate::pool::Pool;

/// One pool for each node that is asked, for all namespaces of a store.
pub(crate) struct NodePools {
    connector: Connector,
    seeds: Vec<Address>,
    timeout: Duration,
    pools: Mutex<HashMap<Address, Arc<Pool>>>,
    topologies: Mutex<Vec<Weak<Topology>>>,
}

impl NodePools {
    /// `seeds` are some of the nodes.
    pub(crate) fn new(connector: Connector, seeds: Vec<Address>, timeout: Duration) -> Arc<Self> {
        let (pools, topologies) = (Mutex::default(), Mutex::default());
        Arc::new(Self { connector, seeds, timeout, pools, topologies })
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the number of open connections.
    pub(crate) fn open_connections(&self) -> usize {
        self.pools().values().map(|pool| pool.open_connections()).sum()
    }

    /// Returns the topology of another namespace, which has not been read yet.
    pub(crate) fn topology(&self, keyspace: &Keyspace) -> Arc<Topology> {
        Arc::new(Topology::new(self.connector.clone(), self.seeds.clone(), keyspace))
    }

    /// Lets the nodes of this topology have pools, while it is in use.
    pub(super) fn serve(&self, topology: &Arc<Topology>) {
        let mut topologies = self.topologies();
        topologies.retain(|other| other.strong_count() > 0);
        topologies.push(Arc::downgrade(topology));
    }

    /// Returns the pool of a node, if it has one.
    pub(super) fn existing(&self, address: &Address) -> Option<Arc<Pool>> {
        self.pools().get(address).map(Arc::clone)
    }

    /// Returns the pool of a node, which is made if need be. Drops the pools of nodes that are not
    /// primaries any more.
    pub(super) fn pool(&self, address: &Address) -> Arc<Pool> {
        let mut pools = self.pools();
        if let Some(pool) = pools.get(address) {
            return Arc::clone(pool);
        }
        let topologies: Vec<_> = self.topologies().iter().filter_map(Weak::upgrade).collect();
        pools.retain(|address, _| topologies.iter().any(|topology| topology.holds_any(address)));
        let pool = Arc::new(Pool::new(Arc::new(self.connector.at(address)), self.timeout));
        pools.insert(address.clone(), Arc::clone(&pool));
        pool
    }

    fn pools(&self) -> MutexGuard<'_, HashMap<Address, Arc<Pool>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn topologies(&self) -> MutexGuard<'_, Vec<Weak<Topology>>> {
        self.topologies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
