//! Sends requests to a cluster: each to the node that holds its stripe at the moment.
//!
//! Each of the 16 stripes is in one slot, so that the routing is a table of 16 addresses. The
//! client library's own cluster connection is not used. It sends a request whose reply was lost
//! again, and returns the result of the last attempt only: a refusal of the second would hide that
//! the first may have been executed (C3). Nor has it a connection that could block on one node.

mod node_pools;
mod slots;
mod topology;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{RedisError, ServerErrorKind};
use stanchion_core::clock::{Instant, now, sleep, timeout_at};
use stanchion_core::{Error, ErrorKind, Result};

pub(crate) use self::node_pools::NodePools;
pub(crate) use self::topology::Topology;
use crate::address::Address;
use crate::command::{Answered, Command};
use crate::error;

/// Minimum and maximum interval between two attempts of one request while the cluster finds a node
/// for it.
const MIN_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(160);
/// Maximum number of redirections in a row that are followed without a pause.
const MAX_FOLLOWED: u32 = 3;

/// The nodes of one namespace.
pub(crate) struct Cluster {
    topology: Arc<Topology>,
    pools: Arc<NodePools>,
}

/// What to do after an answer or a failure that proves that nothing was executed.
enum Next {
    /// Ask the node that the stripe is on by the table as it is now.
    Follow,
    /// Ask again after a pause and, if `read`, after reading from the nodes which of them holds
    /// what.
    Again { error: Error, read: bool },
}

impl Next {
    fn pause(error: Error) -> Self {
        Self::Again { error, read: false }
    }

    fn read(error: Error) -> Self {
        Self::Again { error, read: true }
    }
}

impl Cluster {
    pub(crate) fn new(topology: Arc<Topology>, pools: Arc<NodePools>) -> Self {
        pools.serve(&topology);
        Self { topology, pools }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.pools.timeout()
    }

    /// Sends a command to the node of a stripe. One that was certainly not executed is sent
    /// again until `end`, to the node that the cluster names. One that may have been executed is
    /// not.
    ///
    /// # Errors
    /// `Unavailable` if it was not executed, `Unknown` if it may have been.
    pub(crate) async fn send(&self, stripe: usize, command: &Command<'_>, end: Instant) -> Result<Answered> {
        let (mut pause, mut followed) = (MIN_PAUSE, 0);
        // An attempt that could hardly be answered in time would only make a certain refusal
        // uncertain.
        let last_start = end - end.saturating_duration_since(now()) / 4;
        loop {
            let (owner, version) = self.topology.owner(stripe);
            let next = match owner {
                Some(owner) => match self.attempt(stripe, &owner, command, end).await? {
                    Ok(answered) => return Ok(answered),
                    Err(next) => next,
                },
                None if version == 0 => {
                    let read = timeout_at(end, self.read(version)).await;
                    read.map_err(|_| unreached().at(&self.topology.target()))??;
                    Next::Follow
                }
                None => Next::read(Error::new(ErrorKind::Unavailable, "no node of the cluster has the slot")),
            };
            let (error, read) = match next {
                Next::Follow if followed < MAX_FOLLOWED => {
                    followed += 1;
                    continue;
                }
                Next::Follow => (unreached(), true),
                Next::Again { error, read } => (error, read),
            };
            if now() + pause >= last_start {
                return Err(error);
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
            if read {
                // Without an answer the old table serves, and the next attempt shows what is wrong.
                let _ = timeout_at(last_start, self.read(version)).await;
            }
            if now() >= last_start {
                return Err(error);
            }
        }
    }

    async fn attempt(
        &self,
        stripe: usize,
        owner: &Address,
        command: &Command<'_>,
        end: Instant,
    ) -> Result<std::result::Result<Answered, Next>> {
        let answer = match self.pools.pool(owner).send(command, false, end).await {
            Ok(answer) => answer,
            Err(error) if error.kind() == ErrorKind::Unavailable => return Ok(Err(Next::read(error))),
            Err(error) => return Err(error),
        };
        let failed = match answer {
            Ok(answered) => return Ok(Ok(answered)),
            Err(failed) => failed,
        };
        match failed.kind() {
            redis::ErrorKind::Server(ServerErrorKind::Moved) => Ok(Err(match redirection(&failed, owner) {
                Some(to) if to != *owner => {
                    self.topology.moved(stripe, to);
                    Next::Follow
                }
                _ => Next::read(error::of_node(failed)),
            })),
            redis::ErrorKind::Server(ServerErrorKind::Ask) => self.ask(&failed, owner, command, end).await,
            redis::ErrorKind::Server(ServerErrorKind::TryAgain) => {
                Ok(Err(Next::pause(error::of_node(failed))))
            }
            redis::ErrorKind::Server(ServerErrorKind::ClusterDown | ServerErrorKind::ReadOnly) => {
                Ok(Err(Next::read(error::of_node(failed))))
            }
            _ => Err(error::of_node(failed)),
        }
    }

    /// Sends the command to the node that the slot is being moved to, which `failed` names.
    async fn ask(
        &self,
        failed: &RedisError,
        owner: &Address,
        command: &Command<'_>,
        end: Instant,
    ) -> Result<std::result::Result<Answered, Next>> {
        let Some(to) = redirection(failed, owner) else { return Err(error::of_node(failed.clone())) };
        match self.pools.pool(&to).send(command, true, end).await {
            Ok(Ok(answered)) => Ok(Ok(answered)),
            // While the slot is moved, neither node has all keys.
            Ok(Err(failed)) if failed.is_cluster_error() => Ok(Err(Next::pause(error::of_node(failed)))),
            Ok(Err(failed)) => Err(error::of_node(failed)),
            Err(error) if error.kind() == ErrorKind::Unavailable => Ok(Err(Next::read(error))),
            Err(error) => Err(error),
        }
    }

    /// Sends a command to every primary.
    ///
    /// # Errors
    /// If the primaries could not be found out.
    pub(crate) async fn send_to_each_primary(
        &self,
        command: &Command<'_>,
        end: Instant,
    ) -> Result<Vec<(Address, Result<Answered>)>> {
        self.read(self.topology.owner(0).1).await?;
        let asked = self.topology.primaries().into_iter().map(async |address| {
            let answer = self.pools.pool(&address).send(command, false, end).await;
            let answer = answer.and_then(|answer| answer.map_err(error::of_node));
            (address, answer)
        });
        Ok(join_all(asked).await)
    }

    async fn read(&self, version: u64) -> Result<()> {
        self.topology.read(version, &|node| self.pools.existing(node)).await
    }
}

fn unreached() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "no node of the cluster could serve the slot within the request's time limit",
    )
}

fn redirection(error: &RedisError, sender: &Address) -> Option<Address> {
    Address::parse(error.redirect_node()?.0, sender)
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("topology", &self.topology).finish_non_exhaustive()
    }
}
