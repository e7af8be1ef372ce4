//! One connection of many callers, made when needed and anew when broken.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, PushInfo, RedisResult, ServerErrorKind, Value};
use stanchion_core::clock::{Instant, now};
use stanchion_core::{Error, ErrorKind, Result};
use tokio::runtime::{Handle, Id};
use tokio::time::{timeout, timeout_at};

use crate::error;
use crate::script::Script;

/// Connections kept at most: one for each runtime that asks.
const RUNTIMES: usize = 4;

/// How long an attempt to connect may take at least.
const SHORTEST_ATTEMPT: Duration = Duration::from_secs(1);

/// A connection, and what tells whether its driver still runs. The driver is a task of the runtime that connected,
/// and only that one can be relied on to run it.
struct Open {
    runtime: Id,
    connection: MultiplexedConnection,
    driver: Weak<()>,
}

/// A connection to one server. Requests of many callers share it; a caller that stops waiting leaves the others'
/// answers in order.
pub(crate) struct Link {
    client: Client,
    limit: Duration,
    open: Mutex<Vec<Open>>,
    /// One attempt to connect at a time: those who wait for it use its connection.
    connecting: tokio::sync::Mutex<()>,
}

impl Link {
    /// A link that has not connected yet. `limit` bounds each request.
    pub(crate) fn new(client: Client, limit: Duration) -> Self {
        Self { client, limit, open: Mutex::new(Vec::new()), connecting: tokio::sync::Mutex::new(()) }
    }

    /// The time limit of a request.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Sends a command and waits for its answer, at most `limit`, connecting included.
    ///
    /// # Errors
    /// `Unavailable` if it was not sent, `Unknown` if it was and no answer came.
    pub(crate) async fn send(&self, command: &Cmd, limit: Duration) -> Result<Value> {
        self.request(command, now() + limit).await?.map_err(error::of_request)
    }

    /// The outer error is of a request that was not sent or not answered, the inner one the answer.
    async fn request(&self, command: &Cmd, end: Instant) -> Result<RedisResult<Value>> {
        let connected = timeout_at(end, self.connection()).await;
        let (mut connection, driver) = connected.map_err(|_| {
            Error::new(ErrorKind::Unavailable, "no connection within the request's time limit")
        })??;
        let Ok(answer) = timeout_at(end, command.query_async(&mut connection)).await else {
            self.discard(&driver);
            return Err(Error::new(ErrorKind::Unknown, "no answer within the request's time limit"));
        };
        if answer.as_ref().is_err_and(|error| error.is_io_error() || error.is_unrecoverable_error()) {
            self.discard(&driver);
        }
        Ok(answer)
    }

    /// Calls a script; `complete` adds keys and arguments to the start of a command. A server that does not know the
    /// script has not executed it and is sent the text.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(crate) async fn script(
        &self,
        script: &Script,
        complete: impl Fn(Cmd) -> Cmd + Send + Sync,
        limit: Duration,
    ) -> Result<Value> {
        let end = now() + limit;
        match self.request(&complete(script.by_hash()), end).await? {
            Err(error) if error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.request(&complete(script.by_text()), end).await?.map_err(error::of_request)
            }
            answer => answer.map_err(error::of_request),
        }
    }

    async fn connection(&self) -> Result<(MultiplexedConnection, Weak<()>)> {
        let runtime = Handle::try_current()
            .map_err(|error| Error::new(ErrorKind::Unavailable, "there is no runtime").with_source(error))?
            .id();
        if let Some(open) = self.find(runtime) {
            return Ok(open);
        }
        let _attempt = self.connecting.lock().await;
        if let Some(open) = self.find(runtime) {
            return Ok(open);
        }
        // Shorter than a request: an attempt that met an outage must not keep those that come after it.
        let attempt = timeout(SHORTEST_ATTEMPT.max(self.limit / 2), connect(&self.client)).await;
        let (connection, driver) =
            attempt.map_err(|_| Error::new(ErrorKind::Unavailable, "the server does not answer"))??;
        let mut open = self.open();
        if open.len() >= RUNTIMES {
            open.remove(0);
        }
        open.push(Open { runtime, connection: connection.clone(), driver: Weak::clone(&driver) });
        Ok((connection, driver))
    }

    /// The connection of this runtime; those whose driver has ended are let go.
    fn find(&self, runtime: Id) -> Option<(MultiplexedConnection, Weak<()>)> {
        let mut open = self.open();
        open.retain(|open| open.driver.strong_count() > 0);
        let open = open.iter().find(|open| open.runtime == runtime)?;
        Some((open.connection.clone(), Weak::clone(&open.driver)))
    }

    /// Lets a connection go. Others' requests on it still get their answers.
    fn discard(&self, driver: &Weak<()>) {
        self.open().retain(|open| !open.driver.ptr_eq(driver));
    }

    fn open(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects. The second part is upgradable for as long as the connection's driver runs.
///
/// # Errors
/// As [`error::of_connect`].
pub(crate) async fn connect(client: &Client) -> Result<(MultiplexedConnection, Weak<()>)> {
    let alive = Arc::new(());
    let driver = Arc::downgrade(&alive);
    // The driver owns the receiver of pushed messages and drops it with itself, whatever ends it.
    let keep = move |_: PushInfo| -> std::result::Result<(), ()> {
        let _ = &alive;
        Ok(())
    };
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_push_sender(keep);
    let connection = client.get_multiplexed_async_connection_with_config(&config).await;
    let address = client.get_connection_info().addr();
    Ok((connection.map_err(|error| error::of_connect(error, address))?, driver))
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("limit", &self.limit)
            .field("connections", &self.open().len())
            .finish_non_exhaustive()
    }
}
