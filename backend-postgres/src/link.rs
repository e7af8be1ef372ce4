//! A few connections of many callers, made when needed and given up when in doubt.

mod attempt;
mod marker;

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions, PgPool, PgRow};
use sqlx::{Connection, PgConnection, SqlStr, raw_sql};
use stanchion_core::clock::{Instant, now};
use stanchion_core::{Error, ErrorKind, Result};
use tokio::runtime::{Handle, Id};
use tokio::sync::Semaphore;
use tokio::time::{timeout, timeout_at};

use self::attempt::{Attempt, Standing};
use self::marker::Marker;
use crate::access::{Access, Sessions, Settings, Way};
use crate::error;
use crate::given::Given;
use crate::schema::Statement;

/// Runtimes whose connections are kept, more only while they have requests under way.
const RUNTIMES: usize = 16;
/// A connection that was idle for longer is asked whether it still works before it is sent anything that matters.
const FRESH: Duration = Duration::from_secs(1);

/// Where a link's connections come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// They are our own.
    Own(Sessions),
    /// They are the user's.
    Given(PgPool),
}

impl From<PgConnectOptions> for Source {
    /// Our own, to a server that is reached directly.
    fn from(options: PgConnectOptions) -> Self {
        let settings = Settings { way: Way::Direct, limit: Duration::from_secs(2), raise: false };
        Self::Own(Sessions { access: Access::Own(Box::new(options)), settings })
    }
}

/// Connections to one database, each for one request at a time.
///
/// A connection of ours is driven by the runtime that made it, and only there can it be relied on: each runtime has its
/// own.
pub(crate) struct Link {
    source: Source,
    connections: usize,
    limit: Duration,
    /// Begins each transaction where the session cannot be set up.
    begin: Option<SqlStr>,
    /// Statements are prepared once for each connection; not where connections remember none.
    remembers: AtomicBool,
    lanes: Mutex<Vec<(Id, Arc<Lane>)>>,
}

/// The connections of one runtime.
struct Lane {
    /// How many more may be in use.
    room: Semaphore,
    idle: Mutex<Vec<Idle>>,
    /// Those that nobody waits for at the moment.
    attempts: Mutex<Vec<Attempt>>,
    runtime: Marker,
}

struct Idle {
    connection: PgConnection,
    /// `None` after a request whose caller went away: its answer is still to come.
    since: Option<Instant>,
}

/// A connection in use.
enum Open {
    Own(PgConnection),
    Given(Given),
}

/// A connection with a request under way. Dropped with the caller's future, one of our own is kept, and what comes yet is
/// read before it is used again: the server ends the statement within its own time limit.
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
        // A transaction that was begun and not ended is the server's to roll back.
        if let (Some(Open::Own(connection)), None) = (self.open.take(), &self.link.begin) {
            self.link.keep(self.lane, Idle { connection, since: None });
        }
    }
}

/// An attempt to connect that somebody waits for. Dropped before its end, it is left to the next one.
struct Awaited<'a> {
    attempt: Option<Attempt>,
    lane: &'a Lane,
}

impl Awaited<'_> {
    async fn end(mut self) -> Result<Option<PgConnection>> {
        let Some(attempt) = &mut self.attempt else { return Ok(None) };
        let made = attempt.end().await;
        self.attempt = None;
        made
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.lane.attempts().extend(self.attempt.take());
    }
}

/// Why a request failed, and whether its connection is as good as before.
struct Failed {
    error: Error,
    intact: bool,
}

impl Link {
    /// A link of at most `connections` of one runtime, that has not connected yet. `limit` bounds each request.
    pub(crate) fn new(source: impl Into<Source>, connections: usize, limit: Duration) -> Self {
        Self {
            source: source.into(),
            connections,
            limit,
            begin: None,
            remembers: AtomicBool::new(true),
            lanes: Mutex::default(),
        }
    }

    /// Each request is a transaction that begins with this statement, because the next one may meet another session.
    #[must_use]
    pub(crate) fn through_pooler(mut self, begin: &Statement) -> Self {
        self.begin = Some(begin.sql());
        self.remembers = AtomicBool::new(false);
        self
    }

    /// The time limit of a request.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Takes over connections that this runtime made and that are idle.
    pub(crate) fn take_over(&self, connections: impl IntoIterator<Item = PgConnection>) {
        if let (Source::Own(_), Ok(lane)) = (&self.source, self.lane()) {
            let since = Some(now());
            let taken = connections.into_iter().take(self.connections);
            lane.idle().extend(taken.map(|connection| Idle { connection, since }));
        }
    }

    /// Runs one statement, which is a transaction of its own, within the link's limit. The answer is given once the
    /// server has said that the transaction is committed, not when the first row came. A connection whose request did
    /// not come to its end in time is closed.
    ///
    /// # Errors
    /// `Unavailable` if it was certainly not executed, `Unknown` if it may have been.
    pub(crate) async fn rows(&self, statement: &Statement, arguments: PgArguments) -> Result<Vec<PgRow>> {
        self.rows_by(statement, arguments, now() + self.limit).await
    }

    /// As [`rows`](Self::rows), until `end`.
    ///
    /// # Errors
    /// As said there.
    pub(crate) async fn rows_by(
        &self,
        statement: &Statement,
        arguments: PgArguments,
        end: Instant,
    ) -> Result<Vec<PgRow>> {
        let lane = self.lane()?;
        let late = |_| Error::new(ErrorKind::Unavailable, "no connection within the request's time limit");
        let _room = timeout_at(end, lane.room.acquire()).await.map_err(late)?;
        let open = Some(timeout_at(end, self.open(&lane)).await.map_err(late)??);
        let mut under_way = UnderWay { open, link: self, lane: &lane };
        let (mut sent, began) = (false, now());
        let answer = timeout_at(end, self.send(&mut under_way.open, statement, arguments, &mut sent)).await;
        let open = under_way.end();
        match answer {
            Ok(Ok(rows)) => {
                self.settle(&lane, open);
                Ok(rows)
            }
            Ok(Err(Failed { error, intact })) => {
                if intact {
                    self.settle(&lane, open);
                } else {
                    lane.idle().clear();
                }
                Err(error)
            }
            Err(_) => {
                match open {
                    // It had little time, which says nothing about the connections.
                    Some(Open::Own(connection))
                        if self.begin.is_none() && began.elapsed() < self.limit / 4 =>
                    {
                        self.keep(&lane, Idle { connection, since: None });
                    }
                    _ => lane.idle().clear(),
                }
                let kind = if sent { ErrorKind::Unknown } else { ErrorKind::Unavailable };
                Err(Error::new(kind, "no answer within the request's time limit"))
            }
        }
    }

    /// Sends a statement. `sent` tells from when on it may be executed.
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
        let persistent = self.remembers.load(Ordering::Relaxed);
        let rows = query.persistent(persistent).fetch_all(&mut *connection).await.map_err(Failed::sent)?;
        if persistent && connection.cached_statements_size() == 0 {
            // Prepared by name all the same, each would stay on the server.
            self.remembers.store(false, Ordering::Relaxed);
        }
        Ok(rows)
    }

    async fn open(&self, lane: &Lane) -> Result<Open> {
        let sessions = match &self.source {
            Source::Given(pool) => return Ok(Open::Given(Given::acquire(pool).await?)),
            Source::Own(sessions) => sessions,
        };
        lane.gather();
        let idle = lane.idle().pop();
        if let Some(Idle { connection, since }) = idle {
            if since.is_some_and(|since| now() - since < FRESH) {
                return Ok(Open::Own(connection));
            }
            // Kept where the caller goes away meanwhile.
            let mut asked = UnderWay { open: Some(Open::Own(connection)), link: self, lane };
            let pinged = match &mut asked.open {
                Some(Open::Own(connection)) => timeout(self.limit / 4, connection.ping()).await,
                _ => Ok(Ok(())),
            };
            if let (Ok(Ok(())), Some(open)) = (pinged, asked.end()) {
                return Ok(open);
            }
            // What broke it has likely broken the others; a statement that takes its time has not.
            if since.is_some() {
                lane.idle().clear();
            }
        }
        loop {
            // With one attempt of each caller at most, and none where one is left, there are never too many connections.
            let left = lane.attempts().pop();
            let was_left = left.is_some();
            let attempt = Some(left.unwrap_or_else(|| Attempt::begin(sessions)));
            match (Awaited { attempt, lane }).end().await {
                Ok(Some(connection)) => return Ok(Open::Own(connection)),
                Ok(None) => {}
                // It began when things were as they may not be now.
                Err(_) if was_left => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Puts a connection back whose request came to its end.
    fn settle(&self, lane: &Lane, open: Option<Open>) {
        match open {
            Some(Open::Own(connection)) => self.keep(lane, Idle { connection, since: Some(now()) }),
            Some(Open::Given(given)) => given.give_back(),
            None => {}
        }
    }

    /// Keeps a connection; one whose answer is still to come is the last that is used again.
    fn keep(&self, lane: &Lane, connection: Idle) {
        let mut idle = lane.idle();
        if idle.len() < self.connections {
            let at = if connection.since.is_some() { idle.len() } else { 0 };
            idle.insert(at, connection);
        }
    }

    fn lane(&self) -> Result<Arc<Lane>> {
        let runtime = Handle::try_current()
            .map_err(|error| Error::new(ErrorKind::Unavailable, "there is no runtime").with_source(error))?
            .id();
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = lanes.iter().position(|(id, _)| *id == runtime) {
            // The one that was not used for the longest stands first.
            lanes[at..].rotate_left(1);
        }
        if let Some((_, lane)) = lanes.last().filter(|(id, _)| *id == runtime) {
            return Ok(Arc::clone(lane));
        }
        lanes.retain(|(_, lane)| lane.runtime.is_there() || Arc::strong_count(lane) > 1);
        if lanes.len() >= RUNTIMES
            && let Some(unused) = lanes.iter().position(|(_, lane)| Arc::strong_count(lane) == 1)
        {
            lanes.remove(unused);
        }
        let lane = Arc::new(Lane::new(self.connections));
        lanes.push((runtime, Arc::clone(&lane)));
        Ok(lane)
    }
}

impl Lane {
    /// Of the runtime that this is called on.
    fn new(connections: usize) -> Self {
        let room = Semaphore::new(connections);
        Self { room, idle: Mutex::default(), attempts: Mutex::default(), runtime: Marker::leave() }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attempts(&self) -> MutexGuard<'_, Vec<Attempt>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over the connections of attempts that came to their end when nobody waited for them.
    fn gather(&self) {
        let mut attempts = self.attempts();
        for attempt in mem::take(&mut *attempts) {
            match attempt.standing() {
                Standing::UnderWay(attempt) => attempts.push(attempt),
                Standing::Made(connection, since) => {
                    self.idle().push(Idle { connection, since: Some(since) });
                }
                Standing::Failed => {}
            }
        }
    }
}

impl Open {
    fn connection(&mut self) -> Option<&mut PgConnection> {
        match self {
            Self::Own(connection) => Some(connection),
            Self::Given(given) => given.connection(),
        }
    }
}

impl Failed {
    /// Of a statement that may have been executed.
    fn sent(error: sqlx::Error) -> Self {
        let intact = error::leaves_connection(&error);
        Self { error: error::of_request(error), intact }
    }

    /// Of a transaction whose commit was not sent: whatever became of the connection, it has changed nothing.
    fn uncommitted(error: sqlx::Error) -> Self {
        Self { error: error::certain(error::of_request(error)), intact: false }
    }

    fn gone() -> Self {
        Self { error: Error::new(ErrorKind::Unavailable, "the connection is gone"), intact: false }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("source", &self.source)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
