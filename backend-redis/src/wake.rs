//! The source of wake-ups: one blocking pop over the process's mailboxes.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, Value};
use stanchion_core::clock::now;
use stanchion_core::engine::steps::{ProcessId, WakeSource};
use stanchion_core::{Error, ErrorKind, Result, Ticket};
use tokio::time::timeout_at;

use crate::error;
use crate::keys::Keyspace;
use crate::link;

/// How long the server waits for a hint.
const WAIT: Duration = Duration::from_millis(1500);

/// Hints to the waiters of one process, popped on a connection of its own.
pub struct RedisWake {
    client: Client,
    command: Cmd,
    limit: Duration,
    idle: Mutex<Option<MultiplexedConnection>>,
}

impl RedisWake {
    /// Over the mailboxes of `process`, not yet connected. `limit` is how late an answer may be.
    pub(crate) fn new(client: Client, keyspace: &Keyspace, process: ProcessId, limit: Duration) -> Self {
        let mut command = redis::cmd("BLPOP");
        command.arg(keyspace.boxes(process)).arg(WAIT.as_secs_f64());
        Self { client, command, limit, idle: Mutex::new(None) }
    }

    fn idle(&self) -> MutexGuard<'_, Option<MultiplexedConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl WakeSource for RedisWake {
    async fn next(&self) -> Result<Vec<Ticket>> {
        // Taken out while in use: a call dropped half way takes its connection, and the pop that blocks it, along.
        let connection = self.idle().take();
        let mut connection = match connection {
            Some(connection) => connection,
            None => {
                let connected = timeout_at(now() + self.limit, link::connect(&self.client)).await;
                let late = |_| Error::new(ErrorKind::Unavailable, "no connection within the time limit");
                connected.map_err(late)??.0
            }
        };
        let answer = timeout_at(now() + WAIT + self.limit, self.command.query_async(&mut connection)).await;
        let answer = answer
            .map_err(|_| Error::new(ErrorKind::Unavailable, "no answer within the time limit"))?
            .map_err(error::of_wake)?;
        *self.idle() = Some(connection);
        Ok(ticket(&answer).into_iter().collect())
    }
}

/// The ticket in an answer; what is no ticket was not pushed by a step and is ignored.
fn ticket(answer: &Value) -> Option<Ticket> {
    let Value::Array(parts) = answer else { return None };
    let Value::BulkString(element) = parts.get(1)? else { return None };
    std::str::from_utf8(element).ok()?.parse().ok()
}

impl fmt::Debug for RedisWake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisWake").field("limit", &self.limit).finish_non_exhaustive()
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
