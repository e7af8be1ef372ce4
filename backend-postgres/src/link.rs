//! A few connections of many callers, made when needed and given up when in doubt.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions, PgRow};
use sqlx::{Connection, PgConnection};
use stanchion_core::clock::Instant;
use stanchion_core::{Error, ErrorKind, Result};
use tokio::runtime::{Handle, Id};
use tokio::sync::Semaphore;
use tokio::time::timeout_at;

use crate::error;
use crate::schema::Statement;

/// Connections to one database, each for one request at a time.
pub(crate) struct Link {
    options: PgConnectOptions,
    limit: Duration,
    /// Connections that wait for a request. A connection is driven by the runtime that made it, and only there can it be
    /// relied on.
    idle: Mutex<Vec<(Id, PgConnection)>>,
    /// How many more may be in use.
    room: Semaphore,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Link {
    /// A link of at most `connections` that has not connected yet. `limit` bounds each request.
    pub(crate) fn new(options: PgConnectOptions, connections: usize, limit: Duration) -> Self {
        Self { options, limit, idle: Mutex::default(), room: Semaphore::new(connections) }
    }

    /// The time limit of a request.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Id, PgConnection)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one statement, which is a transaction of its own, within the link's limit. The answer is given once the
    /// server has said that the transaction is committed, not when the first row came. A connection whose request did
    /// not come to its end, or whose caller went away, is closed.
    ///
    /// # Errors
    /// `Unavailable` if it was certainly not executed, `Unknown` if it may have been.
    pub(crate) async fn rows(&self, statement: &Statement, arguments: PgArguments) -> Result<Vec<PgRow>> {
        self.rows_by(statement, arguments, stanchion_core::clock::now() + self.limit).await
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
        let late = |_| Error::new(ErrorKind::Unavailable, "no connection within the request's time limit");
        let _room = timeout_at(end, self.room.acquire()).await.map_err(late)?;
        let runtime = Handle::current().id();
        let found = {
            let mut idle = self.idle();
            idle.iter().rposition(|(id, _)| *id == runtime).map(|at| idle.swap_remove(at).1)
        };
        let mut connection = match found {
            Some(connection) => connection,
            None => timeout_at(end, PgConnection::connect_with(&self.options))
                .await
                .map_err(late)?
                .map_err(error::of_connect)?,
        };
        let query = sqlx::query_with(statement.sql(), arguments).fetch_all(&mut connection);
        let answer = timeout_at(end, query).await;
        let answer = answer
            .map_err(|_| Error::new(ErrorKind::Unknown, "no answer within the request's time limit"))?;
        if answer.as_ref().err().is_none_or(error::leaves_connection) {
            self.idle().push((runtime, connection));
        }
        answer.map_err(error::of_request)
    }
}
