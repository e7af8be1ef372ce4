//! A few connections that many callers share. They are made when they are needed, and closed when their state is
//! unknown.

mod failed;
mod source;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::{Connection, PgConnection, SqlStr, raw_sql};
use stanchion_core::clock::{Instant, now, timeout, timeout_at};
use stanchion_core::connect::{Attempts, current_runtime};
use stanchion_core::runtime::RuntimeMark;
use stanchion_core::{Error, ErrorKind, Result};
use tokio::runtime::{Handle, Id};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use self::failed::{Failed, unconnected};
pub(crate) use self::source::Source;
use crate::error;
use crate::schema::Statement;
use crate::user_connection::UserConnection;

/// Maximum time that a connection may be idle before it is checked by a ping at its next use.
const MAX_UNCHECKED_IDLE: Duration = Duration::from_secs(1);

/// Connections to one database, each for one request at a time.
///
/// A connection is driven by the runtime that made it and works only while that runtime does, so each runtime has
/// connections of its own. The engine lets two at most make requests: one of callers, and its own.
pub(crate) struct Link {
    source: Source,
    connections: usize,
    request_timeout: Duration,
    /// The statement that begins each transaction behind a pooler, where sessions cannot be set up.
    begin: Option<SqlStr>,
    /// The engine's runtime, if callers' requests run there that do not run on their own.
    engine: Option<Id>,
    /// Whether connections keep prepared statements. If they do, each statement is prepared once for each connection.
    keeps_statements: AtomicBool,
    lanes: Mutex<Vec<(Id, Arc<Lane>)>>,
}

/// The connections of one runtime.
struct Lane {
    /// Counts how many more connections may be in use.
    permits: Semaphore,
    idle: Mutex<Vec<Idle>>,
    /// The connection, and the moment at which it was made; `None` if the server did not answer.
    attempts: Attempts<Option<(PgConnection, Instant)>>,
    runtime: RuntimeMark,
}

struct Idle {
    connection: PgConnection,
    /// `None` after a request whose caller went away: its answer has not been read yet.
    since: Option<Instant>,
}

/// A connection in use.
enum Open {
    Own(PgConnection),
    User(UserConnection),
}

/// A connection with a request under way. If the caller's future is dropped, a connection of the link's own is kept.
/// The rest of the answer is read before its next use: the server ends the statement within its own timeout.
struct UnderWay<'a> {
    open: Option<Open>,
    link: &'a Link,
    lane: &'a Lane,
}

impl UnderWay<'_> {
    fn end(mut self) -> Option<Open> {
        self.open.take()
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        // A transaction that was begun and not ended is closed with its connection: the server rolls it back.
        if let (Some(Open::Own(connection)), None) = (self.open.take(), &self.link.begin) {
            self.link.keep(self.lane, Idle { connection, since: None });
        }
    }
}

/// A request that runs by itself. Dropped, it ends.
struct Request(JoinHandle<Result<Vec<PgRow>>>);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Link {
    /// Makes a link of at most `connections` connections of each runtime. It connects when it is used.
    pub(crate) fn new(source: impl Into<Source>, connections: usize, request_timeout: Duration) -> Self {
        Self {
            source: source.into(),
            connections,
            request_timeout,
            begin: None,
            engine: None,
            keeps_statements: AtomicBool::new(true),
            lanes: Mutex::default(),
        }
    }

    /// Makes each request a transaction that begins with this statement, because the next request may meet another
    /// session.
    #[must_use]
    pub(crate) fn through_pooler(mut self, begin: &Statement) -> Self {
        self.begin = Some(begin.sql());
        self.keeps_statements = AtomicBool::new(false);
        self
    }

    /// Names the runtime on which the requests of many runtimes share a few connections.
    #[must_use]
    pub(crate) fn shared_on(mut self, engine: Option<Id>) -> Self {
        self.engine = engine;
        self
    }

    /// Returns the number of open connections; one in use is open, or is being made.
    pub(crate) fn open_connections(&self) -> usize {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |lane: &Lane| lane.idle().len() + self.connections - lane.permits.available_permits();
        lanes.iter().map(|(_, lane)| of(lane)).sum()
    }

    /// Returns the timeout of a request.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.request_timeout
    }

    /// Takes over idle connections that this runtime made.
    pub(crate) fn take_over(&self, connections: impl IntoIterator<Item = PgConnection>) {
        if let (Source::Own(_), Ok(lane)) = (&self.source, self.lane()) {
            let since = Some(now());
            let taken = connections.into_iter().take(self.connections);
            lane.idle().extend(taken.map(|connection| Idle { connection, since }));
        }
    }

    /// Runs one statement, which is a transaction of its own, within the request timeout. Returns the answer once the
    /// server has reported the commit, not when the first row arrives. A connection is closed if its request did not
    /// end in time.
    ///
    /// # Errors
    /// `Unavailable` if it was certainly not executed, `Unknown` if it may have been.
    pub(crate) async fn rows(&self, statement: &Statement, arguments: PgArguments) -> Result<Vec<PgRow>> {
        self.rows_by(statement, arguments, now() + self.request_timeout).await
    }

    /// As [`rows`](Self::rows), until `end`.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub(crate) async fn rows_by(
        &self,
        statement: &Statement,
        arguments: PgArguments,
        end: Instant,
    ) -> Result<Vec<PgRow>> {
        let lane = self.lane()?;
        let late = |_| Error::new(ErrorKind::Unavailable, "no connection within the request timeout");
        let _permit = timeout_at(end, lane.permits.acquire()).await.map_err(late)?;
        let open = timeout_at(end, self.open(&lane)).await;
        let open = Some(open.map_err(|_| unconnected(&self.source))??);
        let mut under_way = UnderWay { open, link: self, lane: &lane };
        let (mut sent, began) = (false, now());
        let answer = timeout_at(end, self.send(&mut under_way.open, statement, arguments, &mut sent)).await;
        let open = under_way.end();
        match answer {
            Ok(Ok(rows)) => {
                self.put_back(&lane, open);
                Ok(rows)
            }
            Ok(Err(Failed { error, intact })) => {
                if intact {
                    self.put_back(&lane, open);
                } else {
                    lane.idle().clear();
                }
                Err(error)
            }
            Err(_) => {
                match open {
                    // The request had little time, so its end says nothing about the connections.
                    Some(Open::Own(connection))
                        if self.begin.is_none() && began.elapsed() < self.request_timeout / 4 =>
                    {
                        self.keep(&lane, Idle { connection, since: None });
                    }
                    _ => lane.idle().clear(),
                }
                let kind = if sent { ErrorKind::Unknown } else { ErrorKind::Unavailable };
                Err(Error::new(kind, "no answer within the request timeout"))
            }
        }
    }

    /// As [`rows_by`](Self::rows_by). On the engine's runtime it goes on by itself: a caller that is not polled would keep a
    /// connection that the callers of other runtimes wait for.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    #[expect(
        clippy::disallowed_methods,
        reason = "it runs on the engine's runtime, until its caller drops it"
    )]
    pub(crate) async fn rows_of_call(
        self: &Arc<Self>,
        statement: &Statement,
        arguments: PgArguments,
        end: Instant,
    ) -> Result<Vec<PgRow>> {
        let current = Handle::try_current().ok().map(|current| current.id());
        if self.engine.is_none() || self.engine != current {
            return self.rows_by(statement, arguments, end).await;
        }
        let (link, statement) = (Arc::clone(self), statement.clone());
        let task = tokio::spawn(async move { link.rows_by(&statement, arguments, end).await });
        let mut request = Request(task);
        let gone = |_| Error::new(ErrorKind::Unknown, "the engine's thread has ended");
        (&mut request.0).await.map_err(gone)?
    }

    /// Sends a statement. Sets `sent` before the server may execute it.
    async fn send(
        &self,
        open: &mut Option<Open>,
        statement: &Statement,
        arguments: PgArguments,
        sent: &mut bool,
    ) -> std::result::Result<Vec<PgRow>, Failed> {
        let Some(connection) = open.as_mut().and_then(Open::connection) else { return Err(Failed::gone()) };
        let query = sqlx::query_with(statement.sql(), arguments);
        if let Some(begin) = &self.begin {
            raw_sql(begin.clone()).execute(&mut *connection).await.map_err(Failed::uncommitted)?;
            let rows = query.persistent(false).fetch_all(&mut *connection).await;
            let rows = match rows {
                Ok(rows) => rows,
                Err(error) => {
                    let intact = error::leaves_connection(&error)
                        && raw_sql("ROLLBACK").execute(&mut *connection).await.is_ok();
                    return Err(Failed { intact, ..Failed::uncommitted(error) });
                }
            };
            *sent = true;
            raw_sql("COMMIT").execute(connection).await.map_err(Failed::sent)?;
            return Ok(rows);
        }
        *sent = true;
        let persistent = self.keeps_statements.load(Ordering::Relaxed);
        let rows = query.persistent(persistent).fetch_all(&mut *connection).await.map_err(Failed::sent)?;
        if persistent && connection.cached_statements_size() == 0 {
            // If they were still prepared by name, each of them would stay on the server.
            self.keeps_statements.store(false, Ordering::Relaxed);
        }
        Ok(rows)
    }

    async fn open(&self, lane: &Lane) -> Result<Open> {
        let sessions = match self.source.pool() {
            Ok(pool) => return Ok(Open::User(UserConnection::acquire(pool).await?)),
            Err(sessions) => sessions,
        };
        let made = lane.attempts.take_made().into_iter().flatten();
        lane.idle().extend(made.map(|(connection, since)| Idle { connection, since: Some(since) }));
        let idle = lane.idle().pop();
        if let Some(Idle { connection, since }) = idle {
            if since.is_some_and(|since| now() - since < MAX_UNCHECKED_IDLE) {
                return Ok(Open::Own(connection));
            }
            // Kept if the caller goes away during the ping.
            let mut asked = UnderWay { open: Some(Open::Own(connection)), link: self, lane };
            let pinged = match &mut asked.open {
                Some(Open::Own(connection)) => {
                    timeout(self.request_timeout / 4, sessions.access.hosts().ask(connection)).await
                }
                _ => Ok(Ok(None)),
            };
            if let (Ok(Ok(None)), Some(open)) = (pinged, asked.end()) {
                return Ok(open);
            }
            // A broken connection: the others are likely broken, too. After a caller went away it may only be a slow
            // statement.
            if since.is_some() {
                lane.idle().clear();
            }
        }
        let connect = || {
            let sessions = sessions.clone();
            async move { Ok(sessions.attempt().await?.map(|connection| (connection, now()))) }
        };
        loop {
            match lane.attempts.own(connect).await {
                (Ok(Some((connection, _))), _) => return Ok(Open::Own(connection)),
                (Ok(None), _) => {}
                // The attempt began earlier: its error may not apply any more.
                (Err(_), true) => sessions.access.hosts().due().await,
                (Err(error), false) => return Err(error),
            }
        }
    }

    /// Puts a connection back after the end of its request.
    fn put_back(&self, lane: &Lane, open: Option<Open>) {
        match open {
            Some(Open::Own(connection)) => self.keep(lane, Idle { connection, since: Some(now()) }),
            Some(Open::User(connection)) => connection.give_back(),
            None => {}
        }
    }

    /// Keeps a connection. A connection whose answer was not read yet is the last one to be used again.
    fn keep(&self, lane: &Lane, connection: Idle) {
        let mut idle = lane.idle();
        if idle.len() < self.connections {
            let at = if connection.since.is_some() { idle.len() } else { 0 };
            idle.insert(at, connection);
        }
    }

    fn lane(&self) -> Result<Arc<Lane>> {
        let runtime = current_runtime()?;
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, lane)) = lanes.iter().find(|(id, _)| *id == runtime) {
            return Ok(Arc::clone(lane));
        }
        lanes.retain(|(_, lane)| lane.runtime.is_there() || Arc::strong_count(lane) > 1);
        let lane = Arc::new(Lane::new(self.connections));
        lanes.push((runtime, Arc::clone(&lane)));
        Ok(lane)
    }
}

impl Lane {
    /// Makes a lane of the runtime that it is called on.
    fn new(connections: usize) -> Self {
        let permits = Semaphore::new(connections);
        Self { permits, idle: Mutex::default(), attempts: Attempts::default(), runtime: RuntimeMark::leave() }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn connection(&mut self) -> Option<&mut PgConnection> {
        match self {
            Self::Own(connection) => Some(connection),
            Self::User(connection) => connection.connection(),
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("source", &self.source)
            .field("request_timeout", &self.request_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
