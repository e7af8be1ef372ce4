//! The sources of wake-ups: blocking pops over the mailboxes of the process.

mod cluster;
mod server;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::{Cmd, RedisError, Value};
use stanchion_core::clock::{now, sleep};
use stanchion_core::spi::{Object, WakeSource};
use stanchion_core::{Error, ErrorKind, Result, Ticket};
use tokio::time::timeout_at;

pub(crate) use self::cluster::ClusterWake;
pub(crate) use self::server::{Inbox, ServerWake};
use crate::connection::Connection;
use crate::keys::{Keyspace, stripe_of};

/// Number of digits of a ticket in an element of a mailbox, which begin where those before it end.
const TICKET_DIGITS: usize = 32;
/// Timeout of a blocking pop.
const POP_TIMEOUT: Duration = Duration::from_millis(1500);

/// Receives the hints to the waiters of one process in one namespace, on connections used for
/// nothing else: one connection to a server, whatever the number of waiters and namespaces; to a
/// cluster one for each stripe that has waiters.
pub struct RedisWake {
    source: Source,
}

enum Source {
    /// No connection can block: the poll floor serves.
    None,
    One(Arc<ServerWake>, Arc<Inbox>),
    Cluster(Box<ClusterWake>),
}

impl RedisWake {
    /// Makes a source without hints.
    pub(crate) fn none() -> Self {
        Self { source: Source::None }
    }

    /// Makes a source over all mailboxes of a process in a namespace, on one server.
    pub(crate) fn of_server(server: &Arc<ServerWake>, keyspace: &Keyspace, boxes: Vec<String>) -> Self {
        let inbox = server.open(keyspace, boxes);
        Self { source: Source::One(Arc::clone(server), inbox) }
    }

    /// Makes a source over the mailboxes of a process on the nodes of a cluster.
    pub(crate) fn of_cluster(source: ClusterWake) -> Self {
        Self { source: Source::Cluster(Box::new(source)) }
    }
}

#[async_trait]
impl WakeSource for RedisWake {
    fn watch(&self, object: &Object, waited_for: bool) {
        match &self.source {
            Source::None => {}
            Source::One(server, inbox) => server.watch(inbox, stripe_of(object), waited_for),
            Source::Cluster(cluster) => cluster.watch(object, waited_for),
        }
    }

    async fn next(&self) -> Result<Vec<Ticket>> {
        match &self.source {
            Source::None => {
                sleep(POP_TIMEOUT).await;
                Ok(Vec::new())
            }
            Source::One(server, inbox) => server.next(inbox).await,
            Source::Cluster(cluster) => Ok(cluster.next().await),
        }
    }
}

/// Tickets that were told together, and the mailbox that they were in.
struct Hint {
    key: String,
    tickets: Vec<Ticket>,
}

/// Returns the command that waits for an element in any of these lists.
fn pop(boxes: &[&String]) -> Cmd {
    let mut command = redis::cmd("BLPOP");
    command.arg(boxes).arg(POP_TIMEOUT.as_secs_f64());
    command
}

/// Waits for a hint. The inner error is the answer of the server.
async fn popped(
    connection: &mut Connection,
    command: &Cmd,
    timeout: Duration,
) -> Result<std::result::Result<Option<Hint>, RedisError>> {
    let answer = timeout_at(now() + POP_TIMEOUT + timeout, connection.ask(command)).await;
    let late = |_| Error::new(ErrorKind::Unavailable, "no answer within the time limit");
    Ok(answer.map_err(late)?.map(|answer| hint(&answer)))
}

/// Returns the hint in an answer. An element that is not of tickets was not pushed by a step, and
/// is ignored.
fn hint(answer: &Value) -> Option<Hint> {
    let Value::Array(parts) = answer else { return None };
    let text = |part: usize| match parts.get(part)? {
        Value::BulkString(text) => std::str::from_utf8(text).ok(),
        _ => None,
    };
    let ticket = |digits| std::str::from_utf8(digits).ok()?.parse().ok();
    let tickets = text(1)?.as_bytes().chunks(TICKET_DIGITS).map(ticket).collect::<Option<Vec<_>>>()?;
    (!tickets.is_empty()).then_some(Hint { key: text(0)?.to_owned(), tickets })
}

impl fmt::Debug for RedisWake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.source {
            Source::None => "none",
            Source::One(..) => "server",
            Source::Cluster(_) => "cluster",
        };
        f.debug_struct("RedisWake").field("source", &source).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn popped(element: &[u8]) -> Option<Vec<Ticket>> {
        let parts = [&b"box"[..], element].map(|part| Value::BulkString(part.to_vec()));
        hint(&Value::Array(parts.to_vec())).map(|hint| hint.tickets)
    }

    #[test]
    fn c14_tickets_that_are_told_together_are_one_element() {
        let tickets = vec![Ticket::random(), Ticket::random(), Ticket::random()];
        let element: String = tickets.iter().map(Ticket::to_string).collect();
        assert_eq!(popped(element.as_bytes()), Some(tickets));
    }

    #[test]
    fn c14_forged_hints_are_ignored() {
        let ticket = Ticket::random();
        assert_eq!(popped(ticket.to_string().as_bytes()), Some(vec![ticket]));
        for forged in [&b""[..], b"hello", b"\xff\xfe", &[b'0'; 33], "ä".repeat(32).as_bytes()] {
            assert_eq!(popped(forged), None);
        }
        assert!(hint(&Value::Nil).is_none());
    }
}
