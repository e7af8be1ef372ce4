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
use crate::access::{Access, Address};
use crate::error;
use crate::keys::{Keyspace, STRIPES};
use crate::link::Link;
use crate::request::{Request, exchange};

/// Timeout of the question to one node.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout of the other nodes, counted from the first answer.
const OTHERS_TIMEOUT: Duration = Duration::from_millis(100);
/// Number of nodes asked at once: without links to as many, nodes to which there is none are asked too.
const MIN_ASKED: usize = 3;
const MAX_ASKED: usize = 8;

/// Finds the link to a node, if there is one.
pub(crate) type FindLink<'a> = &'a (dyn Fn(&Address) -> Option<Arc<Link>> + Sync);

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
    access: Access,
    seeds: Vec<Address>,
    slots: [u16; STRIPES],
    table: Mutex<Table>,
    /// Lets one caller read at a time; the callers that waited use what it has read.
    reading: tokio::sync::Mutex<()>,
}

impl Topology {
    pub(crate) fn new(access: Access, seeds: Vec<Address>, keyspace: &Keyspace) -> Self {
        let slots = std::array::from_fn(|stripe| slot(&keyspace.tag(stripe)));
        let table = Table { owners: Default::default(), primaries: Vec::new(), version: 0 };
        Self { access, seeds, slots, table: Mutex::new(table), reading: tokio::sync::Mutex::default() }
    }

    /// Returns how a node is reached.
    pub(crate) fn access(&self, address: &Address) -> Access {
        self.access.at(address)
    }

    /// Returns the node of a stripe, if one is known, and the version of the table.
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

    /// Reads the table anew, unless another caller has done so since version `seen`. Nodes to which there is a link are
    /// asked over it, and others only if there are too few of them.
    ///
    /// # Errors
    /// The error of the last node that failed, if none answered; an error that no further attempt would mend comes first.
    pub(crate) async fn read(&self, seen: u64, link: FindLink<'_>) -> Result<()> {
        let _reading = self.reading.lock().await;
        if self.table().version != seen {
            return Ok(());
        }
        let views = self.ask(link).await?;
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

    /// Returns what several nodes see: one of them may be cut off from the others without knowing it.
    async fn ask(&self, link: FindLink<'_>) -> Result<Vec<Vec<Range>>> {
        let mut nodes = self.primaries();
        let known = self.seeds.iter().filter(|seed| !nodes.contains(seed)).cloned().collect::<Vec<_>>();
        nodes.extend(known);
        // Starts with other nodes each time, where there are many.
        let first = usize::try_from(self.table().version).unwrap_or_default() % nodes.len().max(1);
        nodes.rotate_left(first);
        let (linked, others): (Vec<_>, Vec<_>) =
            nodes.into_iter().map(|node| (link(&node), node)).partition(|(link, _)| link.is_some());
        let few = MIN_ASKED.saturating_sub(linked.len());
        let (mut others, linked) = (others.into_iter(), linked.into_iter().take(MAX_ASKED));
        let mut asked: FuturesUnordered<_> =
            linked.chain(others.by_ref().take(few)).map(|(link, node)| self.view(node, link)).collect();
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
            asked.extend(others.next().map(|(link, node)| self.view(node, link)));
        }
        let end = now() + OTHERS_TIMEOUT;
        while let Ok(Some(view)) = timeout_at(end, asked.next()).await {
            views.extend(view);
        }
        if views.is_empty() { Err(failed) } else { Ok(views) }
    }

    fn view(&self, node: Address, link: Option<Arc<Link>>) -> BoxFuture<'_, Result<Vec<Range>>> {
        Box::pin(self.ask_node(node, link))
    }

    async fn ask_node(&self, node: Address, link: Option<Arc<Link>>) -> Result<Vec<Range>> {
        let access = self.access(&node);
        let mut slots = redis::cmd("CLUSTER");
        slots.arg("SLOTS");
        let certain = |error| error::certain(error).at(&access.target());
        let answer = match link {
            Some(link) => {
                let answer = link.send(Request::Command(&slots), false, now() + ANSWER_TIMEOUT).await;
                answer.map_err(certain)?.map(|answered| answered.value)
            }
            None => {
                let (mut connection, _) = access.connect().await?;
                let asked = timeout(ANSWER_TIMEOUT, exchange(&mut connection, &[slots])).await;
                let answers = asked.map_err(|_| access.unanswered())?;
                answers.and_then(|mut answers| answers.pop().unwrap_or(Ok(Value::Nil)))
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

/// Reads the answer to `CLUSTER SLOTS`: first slot, last slot, the primary, its replicas. A host that is null, empty or `?`,
/// as the node itself does not know it, is the host of the node that was asked.
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
