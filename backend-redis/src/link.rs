//! One connection of many callers, made when needed and anew when broken.

mod attempt;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, RedisResult, ServerErrorKind, Value};
use stanchion_core::clock::Instant;
use stanchion_core::{Error, ErrorKind, Result};
use tokio::runtime::{Handle, Id};
use tokio::time::timeout_at;

use self::attempt::Attempts;
use crate::access::Access;
use crate::error;
use crate::given::{Given, exchange};
use crate::sentinel::Sentinels;
use crate::unit::{Answered, Answers, Unit};

/// Connections kept at most: one for each runtime that asks.
const RUNTIMES: usize = 16;

/// How long an attempt to connect may take at least.
const SHORTEST_ATTEMPT: Duration = Duration::from_secs(1);

/// Where a link leads.
#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    /// To one server.
    Server(Access),
    /// To whichever server the sentinels announce.
    Sentinel(Arc<Sentinels>),
    /// To where the user's connection leads.
    Given(Given),
}

impl Endpoint {
    /// Makes a connection; see [`Access::connect`].
    ///
    /// # Errors
    /// Why there is none. Nothing was sent.
    pub(crate) async fn connect(&self) -> Result<(MultiplexedConnection, Weak<()>)> {
        match self {
            Self::Server(access) => access.connect().await,
            Self::Sentinel(sentinels) => sentinels.connect().await,
            Self::Given(_) => {
                Err(Error::new(ErrorKind::Unsupported, "the user's connection is the only one"))
            }
        }
    }
}

/// A connection, and what tells whether its driver still runs. The driver is a task of the runtime that connected,
/// and only that one can be relied on to run it.
struct Open {
    runtime: Id,
    connection: MultiplexedConnection,
    driver: Weak<()>,
}

/// The connections of a link.
#[derive(Default)]
struct Connections(Mutex<Vec<Open>>);

impl Connections {
    fn all(&self) -> MutexGuard<'_, Vec<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, connection: Open) {
        let mut all = self.all();
        if all.len() >= RUNTIMES {
            all.remove(0);
        }
        all.push(connection);
    }

    /// The connection of a runtime; those whose driver has ended are let go.
    fn find(&self, runtime: Id) -> Option<(MultiplexedConnection, Weak<()>)> {
        let mut all = self.all();
        all.retain(|open| open.driver.strong_count() > 0);
        let open = all.iter().find(|open| open.runtime == runtime)?;
        Some((open.connection.clone(), Weak::clone(&open.driver)))
    }

    /// Lets a connection go. Others' requests on it still get their answers.
    fn discard(&self, driver: &Weak<()>) {
        self.all().retain(|open| !open.driver.ptr_eq(driver));
    }
}

/// A connection to one server. Requests of many callers share it; a caller that stops waiting leaves the others'
/// answers in order.
pub(crate) struct Link {
    endpoint: Endpoint,
    limit: Duration,
    connections: Arc<Connections>,
    /// One attempt to connect at a time of each runtime: those who wait for it use its connection, whoever began it.
    attempts: Attempts,
}

impl Link {
    /// A link that has not connected yet. `limit` bounds each request.
    pub(crate) fn new(endpoint: Endpoint, limit: Duration) -> Self {
        Self { endpoint, limit, connections: Arc::default(), attempts: Attempts::default() }
    }

    /// The time limit of a request.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Whether it leads to all nodes of a cluster, by a connection that finds the right one.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(&self.endpoint, Endpoint::Given(given) if given.is_cluster)
    }

    /// Sends a unit and waits for its answer until `end`, connecting included. A server that does not know a script has
    /// not executed it and is sent the text. The inner error is what the server answered.
    ///
    /// # Errors
    /// `Unavailable` if it was not sent, `Unknown` if it was and no answer came.
    pub(crate) async fn carry(
        &self,
        unit: Unit<'_>,
        asking: bool,
        end: Instant,
    ) -> Result<RedisResult<Answered>> {
        let mut answers = self.exchange(&unit.commands(asking, false), end).await?;
        if asking {
            answers.next();
        }
        let first = answers.next().ok_or_else(error::unexpected)?;
        let value = match first {
            Err(error) if error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoScript) => {
                answers = self.exchange(&unit.commands(asking, true), end).await?;
                if asking {
                    answers.next();
                }
                answers.next().ok_or_else(error::unexpected)?
            }
            first => first,
        };
        let read = |answer| match answer {
            Ok(Value::Int(count)) => u32::try_from(count).map_err(|_| error::unexpected()),
            Ok(_) => Err(error::unexpected()),
            Err(error) => Err(error::of_request(error)),
        };
        Ok(value.map(|value| Answered { value, acknowledged: answers.next().map(read) }))
    }

    /// What an answer that is an error means, of this connection.
    pub(crate) fn judge(&self, error: RedisError) -> Error {
        let error = error::of_request(error);
        if self.is_cluster() && error.kind() == ErrorKind::Unavailable {
            // It may be the answer to a second attempt of the client library's, after one whose reply was lost.
            return Error::new(ErrorKind::Unknown, "the last attempt was refused").with_source(error);
        }
        error
    }

    async fn exchange(&self, commands: &[Cmd], end: Instant) -> Result<Answers> {
        let late = |_| Error::new(ErrorKind::Unknown, "no answer within the request's time limit");
        if let Endpoint::Given(given) = &self.endpoint {
            let answers = timeout_at(end, given.exchange(commands)).await.map_err(late)?;
            return Ok(answers.map_err(|error| self.judge(error))?.into_iter());
        }
        let connected = timeout_at(end, self.connection()).await;
        let (mut connection, driver) = connected.map_err(|_| {
            Error::new(ErrorKind::Unavailable, "no connection within the request's time limit")
        })??;
        let answers = match timeout_at(end, exchange(&mut connection, commands)).await {
            Ok(answers) => answers,
            Err(elapsed) => {
                self.connections.discard(&driver);
                return Err(late(elapsed));
            }
        };
        match answers {
            Ok(answers) => {
                if answers.iter().any(|answer| answer.as_ref().is_err_and(is_of_another)) {
                    self.connections.discard(&driver);
                }
                Ok(answers.into_iter())
            }
            Err(error) => {
                self.connections.discard(&driver);
                Err(error::of_request(error))
            }
        }
    }

    async fn connection(&self) -> Result<(MultiplexedConnection, Weak<()>)> {
        let runtime = Handle::try_current()
            .map_err(|error| Error::new(ErrorKind::Unavailable, "there is no runtime").with_source(error))?
            .id();
        if let Some(open) = self.connections.find(runtime) {
            return Ok(open);
        }
        // Shorter than a request: an attempt that met an outage must not keep those that come after it.
        let limit = SHORTEST_ATTEMPT.max(self.limit / 2);
        let attempt = || self.attempts.of(runtime, &self.endpoint, &self.connections, limit);
        let first = attempt();
        if let Some(open) = self.connections.find(runtime) {
            return Ok(open);
        }
        let is_anothers = first.is_anothers;
        match first.end().await {
            // It may have begun when nothing was as it is now.
            Err(_) if is_anothers => attempt().end().await,
            made => made,
        }
    }
}

/// Whether a new connection may do better: to the server that is the primary now, or with rights that this one has lost.
fn is_of_another(error: &RedisError) -> bool {
    error.kind() == redis::ErrorKind::Server(ServerErrorKind::ReadOnly)
        || error.kind() == redis::ErrorKind::Server(ServerErrorKind::MasterDown)
        || error.kind() == redis::ErrorKind::AuthenticationFailed
        || error.code() == Some("NOAUTH")
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("limit", &self.limit)
            .field("connections", &self.connections.all().len())
            .finish_non_exhaustive()
    }
}
