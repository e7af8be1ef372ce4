//! The sources of wake-ups: blocking pops over the mailboxes of the process.

mod cluster;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, Value};
use stanchion_core::clock::{now, sleep};
use stanchion_core::steps::{Object, WakeSource};
use stanchion_core::{Error, ErrorKind, Result, Ticket};
use tokio::time::timeout_at;

pub(crate) use self::cluster::ClusterWake;
use crate::error;
use crate::link::Endpoint;

/// Timeout of a blocking pop.
const POP_TIMEOUT: Duration = Duration::from_millis(1500);

/// Receives the hints to the waiters of one process, on connections used for nothing else: one connection to a server,
/// whatever the number of waiters; to a cluster one for each stripe that has waiters.
pub struct RedisWake {
    source: Source,
}

enum Source {
    /// No connection can block: the poll floor serves.
    None,
    One(Box<ServerWake>),
    Cluster(Box<ClusterWake>),
}

impl RedisWake {
    /// Makes a source without hints.
    pub(crate) fn none() -> Self {
        Self { source: Source::None }
    }

    /// Makes a source over all mailboxes of a process, on one server. `timeout` is how late an answer may be.
    pub(crate) fn of_server(endpoint: Endpoint, boxes: &[String], timeout: Duration) -> Self {
        let server = ServerWake { endpoint, command: pop(boxes), timeout, idle: Mutex::new(None) };
        Self { source: Source::One(Box::new(server)) }
    }

    /// Makes a source over the mailboxes of a process on the nodes of a cluster.
    pub(crate) fn of_cluster(source: ClusterWake) -> Self {
        Self { source: Source::Cluster(Box::new(source)) }
    }
}

#[async_trait]
impl WakeSource for RedisWake {
    fn watch(&self, object: &Object, waited_for: bool) {
        if let Source::Cluster(cluster) = &self.source {
            cluster.watch(object, waited_for);
        }
    }

    async fn next(&self) -> Result<Vec<Ticket>> {
        let ticket = match &self.source {
            Source::None => {
                sleep(POP_TIMEOUT).await;
                None
            }
            Source::One(server) => server.next().await?,
            Source::Cluster(cluster) => cluster.next().await,
        };
        Ok(ticket.into_iter().collect())
    }
}

/// The wake-ups of one server.
struct ServerWake {
    endpoint: Endpoint,
    command: Cmd,
    timeout: Duration,
    idle: Mutex<Option<MultiplexedConnection>>,
}

impl ServerWake {
    async fn next(&self) -> Result<Option<Ticket>> {
        // Taken out while in use: a call that is dropped half way drops its connection, which a pop still blocks.
        let connection = self.idle().take();
        let mut connection = match connection {
            Some(connection) => connection,
            None => self.endpoint.connect().await?.0,
        };
        let ticket = popped(&mut connection, &self.command, self.timeout).await;
        let ticket = ticket?.map_err(|error| error::certain(error::of_request(error)))?;
        *self.idle() = Some(connection);
        Ok(ticket)
    }

    fn idle(&self) -> MutexGuard<'_, Option<MultiplexedConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the command that waits for an element in any of these lists.
fn pop(boxes: &[String]) -> Cmd {
    let mut command = redis::cmd("BLPOP");
    command.arg(boxes).arg(POP_TIMEOUT.as_secs_f64());
    command
}

/// Waits for a hint. The inner error is the answer of the server.
async fn popped(
    connection: &mut MultiplexedConnection,
    command: &Cmd,
    timeout: Duration,
) -> Result<std::result::Result<Option<Ticket>, RedisError>> {
    let answer = timeout_at(now() + POP_TIMEOUT + timeout, command.query_async(connection)).await;
    let late = |_| Error::new(ErrorKind::Unavailable, "no answer within the time limit");
    Ok(answer.map_err(late)?.map(|answer| ticket(&answer)))
}

/// Returns the ticket in an answer. An element that is no ticket was not pushed by a step, and is ignored.
fn ticket(answer: &Value) -> Option<Ticket> {
    let Value::Array(parts) = answer else { return None };
    let Value::BulkString(element) = parts.get(1)? else { return None };
    std::str::from_utf8(element).ok()?.parse().ok()
}

impl fmt::Debug for RedisWake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.source {
            Source::None => "none",
            Source::One(_) => "server",
            Source::Cluster(_) => "cluster",
        };
        f.debug_struct("RedisWake").field("source", &source).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn popped(element: &[u8]) -> Option<Ticket> {
        ticket(&Value::Array(vec![Value::BulkString(b"box".to_vec()), Value::BulkString(element.to_vec())]))
    }

    #[test]
    fn c14_forged_hints_are_ignored() {
        let ticket = Ticket::random();
        assert_eq!(popped(ticket.to_string().as_bytes()), Some(ticket));
        for forged in [&b""[..], b"hello", b"\xff\xfe", &[b'0'; 33]] {
            assert_eq!(popped(forged), None);
        }
        assert_eq!(super::ticket(&Value::Nil), None);
    }
}
