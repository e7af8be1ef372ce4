//! A few connections that many callers share. They are made when they are needed, and closed when
//! their state is unknown.

mod failed;
mod idle;
mod late;
mod opening;
mod registry;
mod runtime_connections;
mod under_way;

use std::fmt;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgPool, PgRow};
use sqlx::{Connection, SqlStr, raw_sql};
use stanchion_core::clock::{Instant, now, timeout_at};
use stanchion_core::connect::current_runtime;
use stanchion_core::runtime::{Stay, moved};
use stanchion_core::{Error, ErrorKind, Result};
use tokio::runtime::{Handle, Id};
use tokio::task::JoinHandle;

use self::failed::Failed;
use self::late::Ended;
use self::registry::Registry;
pub(crate) use self::registry::Sort;
use self::runtime_connections::{Idle, OpenConnection, RuntimeConnections};
use self::under_way::UnderWay;
use crate::connector::Connector;
use crate::error;
use crate::schema::Statement;

/// Connections to one database, each for one request at a time.
///
/// A connection is driven by the runtime that made it and works only while that runtime does, so
/// each runtime has connections of its own. The engine lets two at most make requests: one of
/// callers, and its own.
pub(crate) struct Pool {
    connector: Connector,
    /// The user's pool, if requests borrow its connections.
    user_pool: Option<PgPool>,
    connections: usize,
    request_timeout: Duration,
    /// The statement that begins each transaction behind a pooler, where sessions cannot be set up.
    begin: Option<SqlStr>,
    /// The engine's runtime, if callers' requests run there that do not run on their own.
    engine: Option<Id>,
    /// Whether connections keep prepared statements. If they do, each statement is prepared once
    /// for each connection.
    keeps_statements: AtomicBool,
    sort: Sort,
    registry: Arc<Registry>,
}

/// A request that runs by itself. Dropped, it ends.
struct Request(JoinHandle<Result<Vec<PgRow>>>);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Pool {
    /// Makes a pool of at most `connections` connections of each runtime. It connects when it is
    /// used.
    pub(crate) fn new(
        connector: impl Into<Connector>,
        connections: usize,
        request_timeout: Duration,
    ) -> Self {
        Self {
            connector: connector.into(),
            user_pool: None,
            connections,
            request_timeout,
            begin: None,
            engine: None,
            keeps_statements: AtomicBool::new(true),
            sort: Sort::Callers,
            registry: Arc::default(),
        }
    }

    /// Makes each request a transaction that begins with this statement, because the next request
    /// may meet another session.
    #[must_use]
    pub(crate) fn through_pooler(mut self, begin: &Statement) -> Self {
        self.begin = Some(begin.sql());
        self.keeps_statements = AtomicBool::new(false);
        self
    }

    /// Has requests borrow the connections of the user's pool, except on the engine's runtime: a
    /// connection that it drives ends with the store, and the user's pool must get none.
    #[must_use]
    pub(crate) fn borrowing(mut self, pool: &PgPool) -> Self {
        self.user_pool = Some(pool.clone());
        self
    }

    /// Returns the user's pool, if requests on the current runtime borrow from it.
    fn user_pool(&self) -> Option<&PgPool> {
        self.user_pool.as_ref().filter(|_| !self.is_on_engine())
    }

    /// Returns whether this is the engine's runtime, where the requests of many runtimes are made.
    fn is_on_engine(&self) -> bool {
        self.engine.is_some() && self.engine == Handle::try_current().ok().map(|current| current.id())
    }

    /// Makes it the pool of other requests beside that of callers. While the server lets no more
    /// connections in, each uses those of the others.
    #[must_use]
    pub(crate) fn beside(mut self, callers: &Self, sort: Sort) -> Self {
        self.sort = sort;
        self.registry = Arc::clone(&callers.registry);
        self
    }

    /// Names the runtime on which the requests of many runtimes share a few connections.
    #[must_use]
    pub(crate) fn shared_on(mut self, engine: Option<Id>) -> Self {
        self.engine = engine;
        self
    }

    /// Returns the timeout of a request.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.request_timeout
    }

    /// Runs one statement, which is a transaction of its own, within the request timeout. Returns
    /// the answer once the server has reported the commit, not when the first row arrives. A
    /// connection is closed if its request did not end in time.
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
        let local = self.local()?;
        let late = |_| Error::new(ErrorKind::Unavailable, "no connection within the request timeout");
        let _permit = timeout_at(end, local.permits.acquire()).await.map_err(late)?;
        let opening = pin!(timeout_at(end, self.open(&local)));
        let open = Stay::new(opening).await.ok_or_else(|| moved(ErrorKind::Unavailable))?;
        let open = Some(open.map_err(|_| self.unconnected())??);
        // What is large may only be slow to pass.
        let pid = open.as_ref().and_then(OpenConnection::pid).filter(|_| !statement.is_large);
        let mut under_way = UnderWay { open, pool: self, local: &local };
        let (mut sent, began) = (false, now());
        let answer = {
            let sending = self.send(&mut under_way.open, statement, arguments, &mut sent);
            Stay::new(pin!(self.answer(&local, (pid, end), sending))).await
        };
        let open = under_way.end();
        let Some(answer) = answer else {
            // What comes of it belongs to a runtime that may drive nothing.
            return Err(moved(if sent { ErrorKind::Unknown } else { ErrorKind::Unavailable }));
        };
        match answer {
            Ended::Answered(Ok(rows)) => {
                open.into_iter().for_each(|open| local.put_back(open));
                Ok(rows)
            }
            Ended::Answered(Err(Failed { error, intact })) => {
                if intact {
                    open.into_iter().for_each(|open| local.put_back(open));
                } else {
                    local.idle().clear();
                }
                Err(error)
            }
            Ended::Dead(other) => {
                drop(open);
                local.drop_unheard(began);
                local.keep(other);
                let lost = "the connection is dead: the request or its answer is lost";
                Err(unanswered(sent, lost).of_a_store_that_answers())
            }
            Ended::Late => {
                match open {
                    // The request had little time, so its end says nothing about the connections.
                    Some(OpenConnection::Own(connection))
                        if self.begin.is_none() && began.elapsed() < self.request_timeout / 4 =>
                    {
                        local.keep(Idle::in_doubt(connection));
                    }
                    _ => local.drop_unheard(began),
                }
                Err(unanswered(sent, "no answer within the request timeout"))
            }
        }
    }

    /// As [`rows_by`](Self::rows_by), by a task of its own: a caller that nobody polls would keep a
    /// connection that others wait for (C27).
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    #[expect(
        clippy::disallowed_methods,
        reason = "it runs on the runtime that its caller chose, until its caller drops it"
    )]
    pub(crate) async fn rows_of_call(
        self: &Arc<Self>,
        statement: &Statement,
        arguments: PgArguments,
        end: Instant,
    ) -> Result<Vec<PgRow>> {
        current_runtime()?;
        let (pool, statement) = (Arc::clone(self), statement.clone());
        let task = tokio::spawn(async move { pool.rows_by(&statement, arguments, end).await });
        let mut request = Request(task);
        match (&mut request.0).await {
            Ok(rows) => rows,
            // The store is closed after it (C27).
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_) => Err(Error::new(ErrorKind::Unknown, "the runtime that made the request has ended")),
        }
    }

    /// Sends a statement. Sets `sent` before the server may execute it.
    async fn send(
        &self,
        open: &mut Option<OpenConnection>,
        statement: &Statement,
        arguments: PgArguments,
        sent: &mut bool,
    ) -> std::result::Result<Vec<PgRow>, Failed> {
        let Some(connection) = open.as_mut().and_then(OpenConnection::connection) else {
            return Err(Failed::gone());
        };
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

    fn local(&self) -> Result<Arc<RuntimeConnections>> {
        let runtime = current_runtime()?;
        Ok(self.registry.local(self.sort, runtime, self.connections))
    }
}

/// Returns the error of a request without an answer; `sent`: the server may have executed it.
fn unanswered(sent: bool, detail: &'static str) -> Error {
    Error::new(if sent { ErrorKind::Unknown } else { ErrorKind::Unavailable }, detail)
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("connector", &self.connector)
            .field("request_timeout", &self.request_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
