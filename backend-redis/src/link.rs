//! A connection that many callers share. It is made when needed, and made anew when it broke.

mod silence;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, RedisResult, ServerErrorKind, Value};
use stanchion_core::clock::{Instant, real, timeout_at};
use stanchion_core::connect::SharedAttempts;
use stanchion_core::{Error, ErrorKind, Result};
use tokio::runtime::Id;

pub(crate) use self::silence::{Driver, Silence};
use crate::access::Access;
use crate::durability::KeptBy;
use crate::error;
use crate::request::{Answered, Answers, Request, exchange};
use crate::sentinel::Sentinels;
use crate::user_connection::UserConnection;

/// Where a link leads.
#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    /// To one server.
    Server(Access),
    /// To whichever server the sentinels announce.
    Sentinel(Arc<Sentinels>),
    /// To the servers of the user's connection.
    UserConnection(UserConnection),
}

impl Endpoint {
    /// Makes a connection; see [`Access::connect`].
    ///
    /// # Errors
    /// If no connection was made. Nothing was sent.
    pub(crate) async fn connect(&self) -> Result<(MultiplexedConnection, Driver)> {
        match self {
            Self::Server(access) => access.connect().await,
            Self::Sentinel(sentinels) => sentinels.connect().await,
            Self::UserConnection(_) => Err(no_connection()),
        }
    }

    /// Returns the error of a connection that was not made in time. Nothing was sent.
    pub(crate) fn unanswered(&self) -> Error {
        match self {
            Self::Server(access) => access.unanswered(),
            Self::Sentinel(sentinels) => sentinels.unanswered(),
            Self::UserConnection(_) => no_connection(),
        }
    }

    /// Adds the address of the server to an error, if there is one server only.
    pub(crate) fn locate(&self, error: Error) -> Error {
        match self {
            Self::Server(access) => error.at(&access.target()),
            _ => error,
        }
    }
}

/// A connection, and a handle that shows whether its driver still runs. The driver is a task of the runtime that connected:
/// it can be relied on only as long as that runtime runs.
struct Open {
    runtime: Id,
    connection: MultiplexedConnection,
    driver: Driver,
}

/// The connections of a link.
#[derive(Default)]
struct Connections(Mutex<Vec<Open>>);

impl Connections {
    fn all(&self) -> MutexGuard<'_, Vec<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, connection: Open) {
        self.all().push(connection);
    }

    /// Returns the connection of a runtime. Drops the connections whose driver has ended.
    fn find(&self, runtime: Id) -> Option<(MultiplexedConnection, Driver)> {
        let mut all = self.all();
        all.retain(|open| open.driver.is_running());
        let open = all.iter().find(|open| open.runtime == runtime)?;
        Some((open.connection.clone(), open.driver.clone()))
    }

    fn open(&self) -> usize {
        self.all().iter().filter(|open| open.driver.is_running()).count()
    }

    /// Drops a connection. Requests of other callers on it still get their answers.
    fn discard(&self, driver: &Driver) {
        self.all().retain(|open| !open.driver.is_same(driver));
    }
}

/// The connections of a link for requests of one sort, one for each runtime. The engine lets two at most make requests: one of
/// callers, and its own.
#[derive(Default)]
struct Line {
    connections: Arc<Connections>,
    /// One attempt to connect at a time for each runtime. All callers that wait for it use its connection.
    attempts: SharedAttempts<(MultiplexedConnection, Driver)>,
}

/// A connection to one server. Many callers share it; when one of them stops waiting, the answers of the others stay in
/// order.
pub(crate) struct Link {
    endpoint: Endpoint,
    timeout: Duration,
    line: Line,
    /// For requests that wait for replicas or a disk: meanwhile the server answers nothing else on their connection.
    waiting_line: Line,
}

impl Link {
    /// Makes a link that has not connected yet. `timeout` is the time limit of each request.
    pub(crate) fn new(endpoint: Endpoint, timeout: Duration) -> Self {
        Self { endpoint, timeout, line: Line::default(), waiting_line: Line::default() }
    }

    /// Returns the time limit of a request.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the number of open connections, apart from one of the user's.
    pub(crate) fn open_connections(&self) -> usize {
        if matches!(self.endpoint, Endpoint::UserConnection(_)) {
            return 0;
        }
        self.line.connections.open() + self.waiting_line.connections.open()
    }

    /// Whether its connection leads to all nodes of a cluster, and finds the right one by itself.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(&self.endpoint, Endpoint::UserConnection(connection) if connection.is_cluster)
    }

    /// Sends a request and waits for its answer until `end`, connecting included. A server that does not know a script has
    /// not executed it, and is sent its text. The inner error is the answer of the server.
    ///
    /// # Errors
    /// `Unavailable` if it was not sent, `Unknown` if it was and no answer came.
    pub(crate) async fn send(
        &self,
        request: Request<'_>,
        asking: bool,
        end: Instant,
    ) -> Result<RedisResult<Answered>> {
        let line = if request.waits() { &self.waiting_line } else { &self.line };
        let mut answers = self.exchange(line, &request.commands(asking, false), end).await?;
        if asking {
            answers.next();
        }
        let first = answers.next().ok_or_else(error::unexpected)?;
        let value = match first {
            Err(error) if error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoScript) => {
                answers = self.exchange(line, &request.commands(asking, true), end).await?;
                if asking {
                    answers.next();
                }
                answers.next().ok_or_else(error::unexpected)?
            }
            first => first,
        };
        let read = |answer: RedisResult<Value>| match answer {
            Ok(answer) => KeptBy::read(&answer),
            Err(error) => Err(error::of_request(error)),
        };
        Ok(value.map(|value| Answered { value, kept: answers.next().map(read) }))
    }

    /// Drops all connections and ends the attempts to connect. Requests under way still get their answers.
    pub(crate) fn leave(&self) {
        for line in [&self.line, &self.waiting_line] {
            line.attempts.end();
            line.connections.all().clear();
        }
    }

    /// Adds the address of the server to an error, if the link leads to one server only.
    pub(crate) fn locate(&self, error: Error) -> Error {
        self.endpoint.locate(error)
    }

    /// Returns what an error answer on this connection means.
    pub(crate) fn judge(&self, error: RedisError) -> Error {
        let error = self.locate(error::of_request(error));
        if self.is_cluster() && error.kind() == ErrorKind::Unavailable {
            // The client library may have sent it twice: this can be the answer to its second attempt, after a lost reply.
            return Error::new(ErrorKind::Unknown, "the last attempt was refused").with_source(error);
        }
        error
    }

    async fn exchange(&self, line: &Line, commands: &[Cmd], end: Instant) -> Result<Answers> {
        let late =
            |_| self.locate(Error::new(ErrorKind::Unknown, "no answer within the request's time limit"));
        if let Endpoint::UserConnection(connection) = &self.endpoint {
            let answers = timeout_at(end, connection.exchange(commands)).await.map_err(late)?;
            return Ok(answers.map_err(|error| self.judge(error))?.into_iter());
        }
        let connected = timeout_at(end, self.connection(line)).await;
        let (mut connection, driver) = connected.map_err(|_| self.endpoint.unanswered())??;
        let sent = real();
        let answers = match timeout_at(end, exchange(&mut connection, commands)).await {
            Ok(answers) => answers,
            Err(elapsed) => {
                if driver.silence().is_none_or(|silence| silence.is_too_long(sent, self.timeout)) {
                    line.connections.discard(&driver);
                }
                return Err(late(elapsed));
            }
        };
        match answers {
            Ok(answers) => {
                if let Some(silence) = driver.silence() {
                    silence.end();
                }
                if answers.iter().any(|answer| answer.as_ref().is_err_and(asks_for_new_connection)) {
                    line.connections.discard(&driver);
                }
                Ok(answers.into_iter())
            }
            Err(error) => {
                line.connections.discard(&driver);
                Err(self.locate(error::of_request(error)))
            }
        }
    }

    async fn connection(&self, line: &Line) -> Result<(MultiplexedConnection, Driver)> {
        let connect = |runtime| {
            let (endpoint, connections) = (self.endpoint.clone(), Arc::clone(&line.connections));
            async move {
                let (connection, driver) = endpoint.connect().await?;
                connections.keep(Open { runtime, connection: connection.clone(), driver: driver.clone() });
                Ok((connection, driver))
            }
        };
        line.attempts.connection(|runtime| line.connections.find(runtime), connect).await
    }
}

fn no_connection() -> Error {
    Error::new(ErrorKind::Unsupported, "the user's connection is the only one")
}

/// Whether a new connection may help: to the server that is the primary now, or with rights that this one has lost.
fn asks_for_new_connection(error: &RedisError) -> bool {
    error.kind() == redis::ErrorKind::Server(ServerErrorKind::ReadOnly)
        || error.kind() == redis::ErrorKind::Server(ServerErrorKind::MasterDown)
        || error.kind() == redis::ErrorKind::AuthenticationFailed
        || error.code() == Some("NOAUTH")
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("timeout", &self.timeout)
            .field("connections", &self.line.connections.all().len())
            .finish_non_exhaustive()
    }
}
