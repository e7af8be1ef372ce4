//! A private Redis Cluster.

use std::thread;

use super::error::ServerError;
use super::launch::READY_LIMIT;
use super::redis::{CLUSTER_NODE, RedisOptions, RedisServer};
use super::wait::wait_until;

const PROGRAM: &str = "redis-server";
const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;
/// Number of keys moved by one `MIGRATE`.
const BATCH: &str = "100";

/// A private cluster of this process, on 127.0.0.1: three primaries with a replica each.
///
/// A node that is silent is replaced only with [`RedisOptions::failover_after`].
#[derive(Debug)]
pub struct RedisCluster {
    /// At first, the replica of node `i` is node `i + 3`.
    nodes: Vec<RedisServer>,
    ids: Vec<String>,
}

impl RedisCluster {
    /// Starts the servers, joins them to a cluster, and waits until all slots are served and all
    /// replicas are in sync.
    ///
    /// # Errors
    ///
    /// As [`RedisServer::start`]; [`ServerError::Silent`] if the cluster does not come up.
    pub fn start(options: RedisOptions) -> Result<Self, ServerError> {
        let node = RedisOptions::default()
            .config(CLUSTER_NODE)
            .config(format!("cluster-node-timeout {}", options.failover_ms()))
            // A failover happens however old the replica's data is, and replicas keep their
            // primaries.
            .config("cluster-replica-validity-factor 0")
            .config("cluster-allow-replica-migration no");
        let node = options.certified()?.over(node);
        let node = if node.speaks_tls() { node.config("tls-cluster yes") } else { node };
        let nodes = start_all(2 * PRIMARIES, &node)?;
        let ids = nodes.iter().map(|node| Ok(body(&node.command(&["CLUSTER", "MYID"])?)));
        let ids = ids.collect::<Result<_, ServerError>>()?;
        let cluster = Self { nodes, ids };
        cluster.join()?;
        cluster.await_ready()?;
        cluster.nodes[..PRIMARIES].iter().try_for_each(RedisServer::await_replica)?;
        Ok(cluster)
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Returns the URL, with all nodes: `redis+cluster://127.0.0.1:PORT,127.0.0.1:PORT…/`.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        let parameters: Vec<_> = self.nodes[0].trust().into_iter().collect();
        self.nodes[0].url_of("+cluster", &hosts.join(","), "", &parameters)
    }

    /// Returns the node that owns a slot, in its own view and in that of the other nodes.
    ///
    /// # Errors
    ///
    /// [`ServerError::Silent`] if no live node owns it within a time that is long enough for a
    /// failover.
    pub fn owner(&self, slot: u16) -> Result<usize, ServerError> {
        self.wait(|| (0..self.nodes.len()).find(|&node| self.holds(node, slot)))
    }

    /// Returns the replica of a node, in the node's own view.
    pub fn replica(&self, primary: usize) -> Option<usize> {
        let view = self.view(primary);
        let line = view.lines().find(|line| {
            let mut fields = line.split(' ').skip(2);
            fields.next().is_some_and(|flags| flags.contains("slave"))
                && fields.next() == Some(&self.ids[primary])
        })?;
        self.ids.iter().position(|id| line.starts_with(id.as_str()))
    }

    /// Moves a slot with its keys to another primary.
    ///
    /// # Errors
    ///
    /// [`ServerError::Io`] if a node does not answer.
    pub fn move_slot(&self, slot: u16, to: usize) -> Result<(), ServerError> {
        let from = self.owner(slot)?;
        let number = slot.to_string();
        let set = |node: usize, state: &str, other: usize| {
            self.nodes[node].command(&["CLUSTER", "SETSLOT", &number, state, &self.ids[other]]).map(drop)
        };
        set(to, "IMPORTING", from)?;
        set(from, "MIGRATING", to)?;
        loop {
            let keys = self.nodes[from].command(&["CLUSTER", "GETKEYSINSLOT", &number, BATCH])?;
            let keys: Vec<_> = keys.lines().filter(|line| !line.starts_with(['*', '$'])).collect();
            if keys.is_empty() {
                break;
            }
            let port = self.nodes[to].port().to_string();
            let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            migrate.extend(keys);
            self.nodes[from].command(&migrate)?;
        }
        // The new owner first, so that no client is redirected to a node that does not know about
        // the slot yet.
        set(to, "NODE", to)?;
        set(from, "NODE", to)?;
        self.wait(|| self.holds(to, slot).then_some(()))
    }

    /// Waits until all slots are served by nodes that know each other, and all live replicas are in
    /// sync.
    ///
    /// # Errors
    ///
    /// [`ServerError::Silent`] if that takes too long.
    pub fn await_ready(&self) -> Result<(), ServerError> {
        self.wait(|| self.nodes.iter().all(|node| node.pid().is_none() || is_ready(node)).then_some(()))
    }

    fn join(&self) -> Result<(), ServerError> {
        for (index, node) in self.nodes.iter().enumerate() {
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
        }
        for node in &self.nodes[1..] {
            let port = node.port().to_string();
            let setting = node.command(&["CONFIG", "GET", "cluster-port"])?;
            let bus_port = setting.lines().last().unwrap_or_default();
            self.nodes[0].command(&["CLUSTER", "MEET", "127.0.0.1", &port, bus_port])?;
        }
        for primary in 0..PRIMARIES {
            let slots = primary * SLOTS / PRIMARIES..(primary + 1) * SLOTS / PRIMARIES;
            let slots: Vec<_> = slots.map(|slot| slot.to_string()).collect();
            let mut add = vec!["CLUSTER", "ADDSLOTS"];
            add.extend(slots.iter().map(String::as_str));
            self.nodes[primary].command(&add)?;
        }
        for replica in PRIMARIES..self.nodes.len() {
            let primary = &self.ids[replica - PRIMARIES];
            // Refused until the primary is known there.
            self.wait(|| {
                let answer = self.nodes[replica].probe(&["CLUSTER", "REPLICATE", primary]);
                answer.is_ok_and(|answer| answer.starts_with('+')).then_some(())
            })?;
        }
        Ok(())
    }

    /// Returns a node's view of the cluster; empty if it does not answer.
    fn view(&self, node: usize) -> String {
        let node = &self.nodes[node];
        node.pid().and_then(|_| node.probe(&["CLUSTER", "NODES"]).ok()).unwrap_or_default()
    }

    fn holds(&self, node: usize, slot: u16) -> bool {
        let view = self.view(node);
        let Some(own) = view.lines().find(|line| line.contains("myself,master")) else { return false };
        own.split(' ').skip(8).any(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let bounds = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
            bounds.is_some_and(|(first, last)| (first..=last).contains(&slot))
        })
    }

    fn wait<T>(&self, probe: impl FnMut() -> Option<T>) -> Result<T, ServerError> {
        wait_until(READY_LIMIT, probe)
            .ok_or_else(|| ServerError::Silent { program: PROGRAM, log: self.view(0).replace('\n', " | ") })
    }
}

/// Starts servers concurrently.
pub(super) fn start_all(count: usize, options: &RedisOptions) -> Result<Vec<RedisServer>, ServerError> {
    thread::scope(|scope| {
        let starting: Vec<_> =
            (0..count).map(|_| scope.spawn(|| RedisServer::start(options.clone()))).collect();
        let panicked = |_| ServerError::io("start a server")(std::io::ErrorKind::Other.into());
        starting.into_iter().map(|thread| thread.join().map_err(panicked)?).collect()
    })
}

fn is_ready(node: &RedisServer) -> bool {
    let says = |command: &[&str]| node.probe(command).unwrap_or_default();
    let cluster = says(&["CLUSTER", "INFO"]);
    let replication = says(&["INFO", "replication"]);
    let in_step = if replication.contains("role:slave") {
        replication.contains("master_link_status:up")
    } else {
        // A primary that lost its replica serves requests, too.
        !replication.contains("state=wait_bgsave") && !replication.contains("state=send_bulk")
    };
    cluster.contains("cluster_state:ok")
        && cluster.contains(&format!("cluster_slots_ok:{SLOTS}"))
        && cluster.contains(&format!("cluster_known_nodes:{}", 2 * PRIMARIES))
        && in_step
}

/// Returns the text of a bulk string.
fn body(answer: &str) -> String {
    answer.lines().nth(1).unwrap_or_default().to_owned()
}
