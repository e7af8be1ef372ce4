//! Which node holds which stripe of a namespace. All its connections to a cluster share this.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use redis::Value;
use stanchion_core::clock::{now, timeout, timeout_at};
use stanchion_core::{Error, ErrorKind, Result};

use super::slots::slot;
use crate::address::Address;
use crate::connector::{Connect, Connector};
use crate::error;
use crate::keys::{Keyspace, STRIPES};
use crate::pool::Pool;

/// Timeout of the question to one node.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout of the other nodes, counted from the first answer.
const OTHERS_TIMEOUT: Duration = Duration::from_millis(100);
/// Number of nodes asked at once: if fewer have a pool, nodes without one are asked too.
const MIN_ASKED: usize = 3;
const MAX_ASKED: usize = 8;

/// Finds the pool of a node, if it has one.
pub(crate) type FindPool<'a> = &'a (dyn Fn(&Address) -> Option<Arc<Pool>> + Sync);

/// The first and last slot of a range, and the node that holds it.
type Range = (u16, u16, Address);

#[derive(Debug)]
struct Table {
    owners: [Option<Address>; STRIPES],
    /// All primaries, also those that hold no stripe.
    primaries: Vec<Address>,
    /// How often the table was read.
    version: u64,
}

/// The nodes of the stripes.
#[derive(Debug)]
pub(crate) struct Topology {
    connector: Connector,
    seeds: Vec<Address>,
    slots: [u16; STRIPES],
    table: Mutex<Table>,
    /// Lets one caller read at a time; the callers that waited use what it has read.
    reading: tokio::sync::Mutex<()>,
}

impl Topology {
    pub(crate) fn new(connector: Connector, seeds: Vec<Address>, keyspace: &Keyspace) -> Self {
        let slots = std::array::from_fn(|stripe| slot(&keyspace.tag(stripe)));
        let table = Table { owners: Default::default(), primaries: Vec::new(), version: 0 };
        Self { connector, seeds, slots, table: Mutex::new(table), reading: tokio::sync::Mutex::default() }
    }

    /// Returns the connector to a node.
    pub(crate) fn connector(&self, address: &Address) -> Connector {
        self.connector.at(address)
    }

    /// Returns the node of a stripe, if there is one, and the version of the table.
    pub(crate) fn owner(&self, stripe: usize) -> (Option<Address>, u64) {
        let table = self.table();
        (table.owners[stripe].clone(), table.version)
    }

    /// Returns the addresses of the URL, as errors show them.
    pub(crate) fn target(&self) -> String {
        let seeds: Vec<_> = self.seeds.iter().map(ToString::to_string).collect();
        seeds.join(",")
    }

    pub(crate) fn primaries(&self) -> Vec<Address> {
        self.table().primaries.clone()
    }

    pub(crate) fn holds_any(&self, address: &Address) -> bool {
        self.table().primaries.contains(address)
    }

    /// Notes a redirection: the stripe is on this node now.
    pub(crate) fn moved(&self, stripe: usize, to: Address) {
        let mut table = self.table();
        if !table.primaries.contains(&to) {
            table.primaries.push(to.clone());
        }
        table.owners[stripe] = Some(to);
    }

    /// Reads the table anew, unless another caller has done so since this version. Nodes that have
    /// a pool are asked over it, and others only if there are too few of them.
    ///
    /// # Errors
    /// The error of the last node that failed, if none answered; an error that no further attempt
    /// would mend comes first.
    pub(crate) async fn read(&self, version: u64, find: FindPool<'_>) -> Result<()> {
        let _reading = self.reading.lock().await;
        if self.table().version != version {
            return Ok(());
        }
        let views = self.ask(find).await?;
        let mut table = self.table();
        table.owners = std::array::from_fn(|stripe| majority(&views, self.slots[stripe]));
        table.primaries.clear();
        for (_, _, address) in views.into_iter().flatten() {
            if !table.primaries.contains(&address) {
                table.primaries.push(address);
            }
        }
        table.version += 1;
        Ok(())
    }

    /// Returns what several nodes see: one of them may be cut off from the others without knowing
    /// it.
    async fn ask(&self, find: FindPool<'_>) -> Result<Vec<Vec<Range>>> {
        let mut nodes = self.primaries();
        let seeds: Vec<_> = self.seeds.iter().filter(|seed| !nodes.contains(seed)).cloned().collect();
        nodes.extend(seeds);
        // Starts with other nodes each time, where there are many.
        let first = usize::try_from(self.table().version).unwrap_or_default() % nodes.len().max(1);
        nodes.rotate_left(first);
        let (pooled, others): (Vec<_>, Vec<_>) =
            nodes.into_iter().map(|node| (find(&node), node)).partition(|(pool, _)| pool.is_some());
        let few = MIN_ASKED.saturating_sub(pooled.len());
        let (mut others, pooled) = (others.into_iter(), pooled.into_iter().take(MAX_ASKED));
        let mut asked: FuturesUnordered<_> =
            pooled.chain(others.by_ref().take(few)).map(|(pool, node)| self.view(node, pool)).collect();
        let mut failed = Error::new(ErrorKind::Unavailable, "no node of the cluster is known");
        let mut views = Vec::new();
        while let Some(view) = asked.next().await {
            match view {
                Ok(view) => {
                    views.push(view);
                    break;
                }
                Err(error) if failed.kind().is_final() => drop(error),
                Err(error) => failed = error,
            }
            asked.extend(others.next().map(|(pool, node)| self.view(node, pool)));
        }
        let end = now() + OTHERS_TIMEOUT;
        while let Ok(Some(view)) = timeout_at(end, asked.next()).await {
            views.extend(view);
        }
        if views.is_empty() { Err(failed) } else { Ok(views) }
    }

    fn view(&self, node: Address, pool: Option<Arc<Pool>>) -> BoxFuture<'_, Result<Vec<Range>>> {
        Box::pin(self.ask_node(node, pool))
    }

    async fn ask_node(&self, node: Address, pool: Option<Arc<Pool>>) -> Result<Vec<Range>> {
        let connector = self.connector(&node);
        let mut slots = redis::cmd("CLUSTER");
        slots.arg("SLOTS");
        let certain = |error| error::certain(error).at(&connector.target());
        let answer = match pool {
            Some(pool) => {
                let answer = pool.send(&slots.into(), false, now() + ANSWER_TIMEOUT).await;
                answer.map_err(certain)?.map(|answered| answered.value)
            }
            None => {
                let mut connection = connector.connect().await?;
                let asked = timeout(ANSWER_TIMEOUT, connection.ask(&slots)).await;
                asked.map_err(|_| connector.unanswered())?
            }
        };
        let answer = answer.map_err(|error| certain(error::of_question(error)))?;
        ranges(answer, &node).ok_or_else(|| certain(error::unexpected()))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the node that holds the slot in most of the views.
fn majority(views: &[Vec<Range>], slot: u16) -> Option<Address> {
    let holds = |range: &&Range| (range.0..=range.1).contains(&slot);
    let mut votes: HashMap<&Address, usize> = HashMap::new();
    for (_, _, address) in views.iter().filter_map(|view| view.iter().find(holds)) {
        *votes.entry(address).or_default() += 1;
    }
    votes.into_iter().max_by_key(|(_, count)| *count).map(|(address, _)| address.clone())
}

/// Reads the answer to `CLUSTER SLOTS`: first slot, last slot, the primary, its replicas. A host
/// that is null, empty or `?`, as the node itself does not know it, is the host of the node that
/// was asked.
fn ranges(answer: Value, asked: &Address) -> Option<Vec<Range>> {
    let Value::Array(entries) = answer else { return None };
    let slot = |value: &Value| match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    };
    let read = |entry: &Value| {
        let Value::Array(parts) = entry else { return None };
        let Value::Array(primary) = parts.get(2)? else { return None };
        let host = match primary.first()? {
            Value::BulkString(host) if !matches!(host.as_slice(), b"" | b"?") => {
                String::from_utf8_lossy(host).into_owned()
            }
            _ => asked.host.clone(),
        };
        let address = Address { host, port: slot(primary.get(1)?)? };
        Some((slot(parts.first()?)?, slot(parts.get(1)?)?, address))
    };
    entries.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Address {
        Address { host: "h".to_owned(), port }
    }

    #[test]
    fn the_answer_of_a_node_is_read() {
        let text = "*2\r\n*4\r\n:0\r\n:5460\r\n*4\r\n$1\r\nh\r\n:7000\r\n$2\r\nid\r\n*0\r\n*3\r\n$1\r\nh\r\n:7003\r\n$2\r\nix\r\n\
                    *3\r\n:5461\r\n:16383\r\n*3\r\n$-1\r\n:7001\r\n$2\r\niy\r\n";
        let answer = redis::parse_redis_value(text.as_bytes()).unwrap();
        let expected = [(0, 5_460, address(7_000)), (5_461, 16_383, address(7_001))];
        assert_eq!(ranges(answer, &address(9)).unwrap(), expected);
        let unknown = text.replace("$-1\r\n", "$1\r\n?\r\n");
        let answer = redis::parse_redis_value(unknown.as_bytes()).unwrap();
        assert_eq!(ranges(answer, &address(9)).unwrap(), expected);
        assert_eq!(ranges(Value::Okay, &address(9)), None);
    }

    #[test]
    fn a_node_that_was_cut_off_is_outvoted() {
        let old = vec![(0, 16_383, address(1))];
        let new = vec![(0, 16_383, address(2))];
        assert_eq!(majority(&[old.clone(), new.clone(), new], 7), Some(address(2)));
        assert_eq!(majority(&[vec![(0, 6, address(1))]], 7), None);
        assert_eq!(majority(&[old], 7), Some(address(1)));
    }
}
