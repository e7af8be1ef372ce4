//! Wake-ups on a cluster: a blocking pop for each stripe that has waiters, on the node that holds
//! it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use redis::{ErrorKind as RedisKind, ServerErrorKind};
use stanchion_core::clock::{now, sleep};
use stanchion_core::spi::Object;
use stanchion_core::{Error, ErrorKind, Result, Ticket};
use tokio::sync::Notify;
use tokio::time::timeout_at;

use super::{POP_TIMEOUT, pop, popped};
use crate::address::Address;
use crate::cluster::Topology;
use crate::connection::Connection;
use crate::connector::Connect;
use crate::error;
use crate::keys::{STRIPES, stripe_of};

/// Maximum number of idle connections, of stripes that have no waiters.
const MAX_IDLE: usize = 4;
/// Interval after a pop that failed.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A connection that no pop blocks.
struct Idle {
    node: Address,
    connection: Connection,
}

/// The end of a pop: its stripe, the hints, and the connection unless it broke.
type Popped = (usize, Vec<Ticket>, Option<Idle>);

/// The pops under way. They outlive the call that began them, so that a hint for one stripe does
/// not end the other pops.
struct Pops {
    under_way: FuturesUnordered<BoxFuture<'static, Popped>>,
    blocked: [bool; STRIPES],
    idle: [Option<Idle>; STRIPES],
}

struct Shared {
    topology: Arc<Topology>,
    /// The mailbox of each stripe.
    boxes: Vec<String>,
    timeout: Duration,
}

/// The wake-ups of a cluster.
pub(crate) struct ClusterWake {
    shared: Arc<Shared>,
    /// Number of objects with waiters, for each stripe.
    watched: Mutex<[usize; STRIPES]>,
    more: Notify,
    pops: tokio::sync::Mutex<Pops>,
}

impl ClusterWake {
    pub(crate) fn new(topology: Arc<Topology>, boxes: Vec<String>, timeout: Duration) -> Self {
        Self {
            shared: Arc::new(Shared { topology, boxes, timeout }),
            watched: Mutex::new([0; STRIPES]),
            more: Notify::new(),
            pops: tokio::sync::Mutex::new(Pops {
                under_way: FuturesUnordered::new(),
                blocked: [false; STRIPES],
                idle: Default::default(),
            }),
        }
    }

    pub(super) fn watch(&self, object: &Object, waited_for: bool) {
        let mut watched = self.watched();
        let count = &mut watched[stripe_of(object)];
        *count = if waited_for { *count + 1 } else { count.saturating_sub(1) };
        if waited_for && *count == 1 {
            self.more.notify_one();
        }
    }

    /// Returns the next hints, if some come in time. A stripe whose node is away does not hold up
    /// the hints of the others.
    pub(super) async fn next(&self) -> Vec<Ticket> {
        let mut pops = self.pops.lock().await;
        let mut over = std::pin::pin!(sleep(POP_TIMEOUT));
        loop {
            pops.block(&self.shared, &self.watched());
            tokio::select! {
                Some((stripe, tickets, connection)) = pops.under_way.next() => {
                    pops.blocked[stripe] = false;
                    pops.idle[stripe] = connection;
                    if !tickets.is_empty() {
                        return tickets;
                    }
                }
                () = self.more.notified() => {}
                () = &mut over => return Vec::new(),
            }
        }
    }

    fn watched(&self) -> MutexGuard<'_, [usize; STRIPES]> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pops {
    /// Begins a pop for each stripe that has waiters and none under way.
    fn block(&mut self, shared: &Arc<Shared>, watched: &[usize; STRIPES]) {
        let mut spare = 0;
        for (stripe, count) in watched.iter().enumerate() {
            if *count == 0 {
                spare += usize::from(self.idle[stripe].is_some());
                if spare > MAX_IDLE {
                    self.idle[stripe] = None;
                }
            } else if !self.blocked[stripe] {
                self.blocked[stripe] = true;
                let idle = self.idle[stripe].take();
                self.under_way.push(Box::pin(Arc::clone(shared).wait(stripe, idle)));
            }
        }
    }
}

impl Shared {
    /// Waits for a hint to a waiter of the stripe. A failure is only logged: the poll floor serves
    /// meanwhile.
    async fn wait(self: Arc<Self>, stripe: usize, idle: Option<Idle>) -> Popped {
        let (owner, version) = self.topology.owner(stripe);
        let failed = match owner {
            Some(owner) => match self.pop(stripe, owner, idle).await {
                Ok((tickets, idle)) => return (stripe, tickets, idle),
                Err(error) => error,
            },
            None => Error::new(ErrorKind::Unavailable, "no node of the cluster has the slot"),
        };
        tracing::debug!(
            stanchion.redis.stripe = stripe,
            error.type = failed.kind().as_str(),
            exception.message = ?failed,
            "no wake-ups for a stripe for now, the poll floor serves"
        );
        sleep(RETRY_INTERVAL).await;
        // The table may still be the old one: after the next failure it is read again.
        let _ = timeout_at(now() + self.timeout, self.topology.read(version, &|_| None)).await;
        (stripe, Vec::new(), None)
    }

    async fn pop(
        &self,
        stripe: usize,
        owner: Address,
        idle: Option<Idle>,
    ) -> Result<(Vec<Ticket>, Option<Idle>)> {
        let usable = idle.filter(|idle| idle.node == owner && idle.connection.is_running());
        let mut idle = match usable {
            Some(idle) => idle,
            None => {
                let connection = self.topology.connector(&owner).connect().await?;
                Idle { node: owner, connection }
            }
        };
        let command = pop(&[&self.boxes[stripe]]);
        match popped(&mut idle.connection, &command, self.timeout).await? {
            Ok(hint) => Ok((hint.map_or_else(Vec::new, |hint| hint.tickets), Some(idle))),
            Err(failed) if failed.kind() == RedisKind::Server(ServerErrorKind::Moved) => {
                let to = failed.redirect_node().and_then(|(node, _)| Address::parse(node, &idle.node));
                self.topology.moved(stripe, to.ok_or_else(error::unexpected)?);
                // Two nodes that do not agree yet redirect to each other.
                sleep(RETRY_INTERVAL / 10).await;
                Ok((Vec::new(), None))
            }
            Err(failed) => Err(error::certain(error::of_node(failed))),
        }
    }
}
