//! The connections to one server that callers share. They are made when needed, and made anew when
//! they broke.

mod connections;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, RedisResult, ServerErrorKind, Value};
use stanchion_core::clock::{Instant, now, real, timeout_at};
use stanchion_core::connect::LATE_ANSWER;
use stanchion_core::runtime::{Stay, moved};
use stanchion_core::{Error, ErrorKind, Result};

use self::connections::{Connections, OpenConnections, Sort};
use crate::command::{Answered, Command};
use crate::connection::{Connection, exchange};
use crate::connector::Connect;
use crate::durability::Acknowledged;
use crate::error;
use crate::user_connection::UserConnection;

/// A request gives up so many connections at most: a server may close each new one.
const MOST_GIVEN_UP: u32 = 2;

/// The connections to one server, which all callers share. While it takes no more of them, requests
/// go over those that are there, also of the pool of other requests ([`Pool::beside`]).
pub(crate) struct Pool {
    kind: PoolKind,
    timeout: Duration,
}

enum PoolKind {
    Own {
        connector: Arc<dyn Connect>,
        connections: Connections,
        /// For requests that wait for replicas or a disk: meanwhile the server answers nothing else
        /// on their connection.
        waiting_connections: Connections,
    },
    /// The user's connection is the only one.
    User(UserConnection),
}

impl Pool {
    /// Makes a pool that has not connected yet. `timeout` is the time limit of each request.
    pub(crate) fn new(connector: Arc<dyn Connect>, timeout: Duration) -> Self {
        let open = Arc::default();
        Self::over(connector, &open, [Sort::Plain, Sort::Waiting], timeout)
    }

    /// Makes the pool of other requests to the same server. Each uses the connections of the other
    /// where it can have none of its own.
    pub(crate) fn beside(&self) -> Self {
        match &self.kind {
            PoolKind::Own { connector, connections, .. } => {
                let sorts = [Sort::PlainBeside, Sort::WaitingBeside];
                Self::over(Arc::clone(connector), &connections.open, sorts, self.timeout)
            }
            PoolKind::User(connection) => Self::of_user(connection.clone(), self.timeout),
        }
    }

    fn over(
        connector: Arc<dyn Connect>,
        open: &Arc<OpenConnections>,
        sorts: [Sort; 2],
        timeout: Duration,
    ) -> Self {
        let [connections, waiting_connections] = sorts.map(|sort| Connections::new(sort, open));
        Self { kind: PoolKind::Own { connector, connections, waiting_connections }, timeout }
    }

    /// Makes a pool of the user's connection alone.
    pub(crate) fn of_user(connection: UserConnection, timeout: Duration) -> Self {
        Self { kind: PoolKind::User(connection), timeout }
    }

    /// Returns the time limit of a request.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the number of open connections, apart from one of the user's.
    pub(crate) fn open_connections(&self) -> usize {
        match &self.kind {
            PoolKind::Own { connections, waiting_connections, .. } => {
                connections.count() + waiting_connections.count()
            }
            PoolKind::User(_) => 0,
        }
    }

    /// Whether it has a connection, or the pool beside it.
    pub(crate) fn has_any(&self) -> bool {
        match &self.kind {
            PoolKind::Own { connections, .. } => connections.open.any(connections.sort).is_some(),
            PoolKind::User(_) => true,
        }
    }

    /// Whether its connection leads to all nodes of a cluster, and finds the right one by itself.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(&self.kind, PoolKind::User(connection) if connection.is_cluster)
    }

    /// Sends a command and waits for its answer until `end`, connecting included. A server that
    /// does not know a script has not executed it, and is sent its text. The inner error is the
    /// answer of the server.
    ///
    /// # Errors
    /// `Unavailable` if it was not sent, `Unknown` if it was and no answer came.
    pub(crate) async fn send(
        &self,
        command: &Command<'_>,
        asking: bool,
        end: Instant,
    ) -> Result<RedisResult<Answered>> {
        let is_unknown_script = |answer: &RedisResult<Value>| {
            let no_script = redis::ErrorKind::Server(ServerErrorKind::NoScript);
            answer.as_ref().is_err_and(|error| error.kind() == no_script)
        };
        let (mut value, mut quorum) = self.exchange(command, (asking, false), end).await?;
        if is_unknown_script(&value) {
            (value, quorum) = self.exchange(command, (asking, true), end).await?;
        }
        let read = |answer: RedisResult<Value>| match answer {
            Ok(answer) => Acknowledged::read(&answer),
            Err(error) => Err(error::of_request(error)),
        };
        Ok(value.map(|value| Answered { value, kept: quorum.map(read) }))
    }

    /// Drops all connections and ends the attempts to connect. Requests under way still get answers
    /// that are not late.
    pub(crate) fn leave(&self) {
        if let PoolKind::Own { connections, waiting_connections, .. } = &self.kind {
            connections.leave();
            waiting_connections.leave();
        }
    }

    /// Adds the address of the server to an error, if the pool leads to one server only.
    pub(crate) fn locate(&self, error: Error) -> Error {
        match &self.kind {
            PoolKind::Own { connector, .. } => connector.locate(error),
            PoolKind::User(_) => error,
        }
    }

    /// Returns what an error answer on this connection means.
    pub(crate) fn judge(&self, error: RedisError) -> Error {
        let error = self.locate(error::of_request(error));
        if self.is_cluster() && error.kind() == ErrorKind::Unavailable {
            // The client library may have sent it twice: this can be the answer to its second
            // attempt, after a lost reply.
            return Error::new(ErrorKind::Unknown, "the last attempt was refused").with_source(error);
        }
        error
    }

    /// Returns a connection that leads to the server: one that was idle is asked first, and
    /// replaced if it does not answer (C28).
    ///
    /// # Errors
    /// If there is none by `end`. Nothing was sent.
    async fn live(
        &self,
        connector: &Arc<dyn Connect>,
        connections: &Connections,
        end: Instant,
    ) -> Result<Connection> {
        let limit = (self.timeout / 2).min(LATE_ANSWER);
        let mut given_up = 0;
        loop {
            let connected = timeout_at(end, connections.connection(connector)).await;
            let mut connection = connected.map_err(|_| connector.unanswered())??;
            if !connection.is_idle() {
                return Ok(connection);
            }
            let asked = real();
            match timeout_at(end.min(now() + limit), connection.is_alive()).await {
                Ok(true) => return Ok(connection),
                Err(_) if !connection.is_silent_too_long(asked, self.timeout.min(LATE_ANSWER)) => {
                    given_up = MOST_GIVEN_UP;
                }
                _ => {
                    connections.discard(&connection);
                    given_up += 1;
                }
            }
            if given_up >= MOST_GIVEN_UP {
                let silent = Error::new(ErrorKind::Unavailable, "an idle connection did not answer");
                return Err(self.locate(silent));
            }
        }
    }

    /// Sends a command once; see [`Command::parts`]. Returns its answer and that of its quorum.
    async fn exchange(
        &self,
        command: &Command<'_>,
        (asking, text): (bool, bool),
        end: Instant,
    ) -> Result<(RedisResult<Value>, Option<RedisResult<Value>>)> {
        let parts = command.parts(asking, text);
        let late =
            || self.locate(Error::new(ErrorKind::Unknown, "no answer within the request's time limit"));
        let answers = match &self.kind {
            PoolKind::User(connection) => {
                connection.check_open().map_err(|error| self.locate(error))?;
                let answers = timeout_at(end, connection.exchange(&parts)).await.map_err(|_| late())?;
                answers.map_err(|error| self.judge(error))?
            }
            PoolKind::Own { connector, connections, waiting_connections } => {
                let connections = if command.waits() { waiting_connections } else { connections };
                let connected = Stay::new(pin!(self.live(connector, connections, end))).await;
                let connected = connected.ok_or_else(|| self.locate(moved(ErrorKind::Unavailable)))?;
                let mut connection = connected?;
                let (sent, _under_way) = (real(), connection.begin(end, command.is_slow()));
                let exchanged = {
                    let Connection { inner, state } = &mut connection;
                    let answer = connections.answer(connector, state, end, exchange(inner, &parts));
                    Stay::new(pin!(answer)).await
                };
                match exchanged.ok_or_else(|| self.locate(moved(ErrorKind::Unknown)))? {
                    Some(Ok(answers)) => {
                        connection.note_answer();
                        if answers.iter().any(|answer| answer.as_ref().is_err_and(asks_for_new_connection)) {
                            connections.discard(&connection);
                        }
                        answers
                    }
                    Some(Err(error)) => {
                        connections.discard(&connection);
                        return Err(self.locate(error::of_request(error)));
                    }
                    // The server has answered, over another connection.
                    None if connection.is_dead() => return Err(late().of_a_store_that_answers()),
                    None => {
                        if connection.is_silent_too_long(sent, self.timeout) {
                            connections.discard(&connection);
                        }
                        return Err(late());
                    }
                }
            }
        };
        let mut answers = answers.into_iter();
        if asking {
            answers.next();
        }
        let first = answers.next().ok_or_else(error::unexpected)?;
        Ok((first, answers.next()))
    }
}

/// Whether a new connection may help: to the server that is the primary now, or with rights that
/// this one has lost.
fn asks_for_new_connection(error: &RedisError) -> bool {
    error.kind() == redis::ErrorKind::Server(ServerErrorKind::ReadOnly)
        || error.kind() == redis::ErrorKind::Server(ServerErrorKind::MasterDown)
        || error.kind() == redis::ErrorKind::AuthenticationFailed
        || error.code() == Some("NOAUTH")
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("timeout", &self.timeout)
            .field("open_connections", &self.open_connections())
            .finish_non_exhaustive()
    }
}
