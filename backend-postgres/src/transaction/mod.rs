//! A mutex for the length of a user's own transaction.

mod turn;

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::{PgConnection, Row};
use stanchion_core::clock::{Instant, now, sleep};
use stanchion_core::engine::Engine;
use stanchion_core::{Error, ErrorKind, FencingToken, GrantId, Name, Result, Ticket};

pub(crate) use self::turn::lock_in;
use crate::context::Context;
use crate::error;
use crate::pool::Pool;
use crate::schema::Statement;
use crate::steps::StatementArguments;

/// Pause before a row is asked for again that somebody else has locked.
const PAUSE: Duration = Duration::from_millis(20);

/// A mutex that a transaction has until it ends: see
/// [`PostgresStore::lock_in`](crate::PostgresStore::lock_in).
///
/// There is no lease and nothing to release: the commit or the rollback frees the mutex. This value
/// only names the grant. A `ROLLBACK TO` a savepoint that is older than the lock frees it, too, and
/// this value does not notice: see [`check`](Self::check).
#[derive(Clone, Debug)]
pub struct TransactionLock {
    namespace: Box<str>,
    name: Name,
    token: FencingToken,
    ticket: Ticket,
    holds: Statement,
}

impl From<&TransactionLock> for GrantId {
    fn from(lock: &TransactionLock) -> Self {
        Self::new(lock.token, lock.ticket)
    }
}

impl TransactionLock {
    /// Returns the fencing token of the grant.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Returns the ticket of the grant: with the token, it is what a [fence](crate::PostgresFence)
    /// checks.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Returns the name of the mutex.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Checks that the transaction still has the mutex. One round trip.
    ///
    /// # Errors
    /// `Lost` if it does not, for instance after a rollback to an older savepoint; `Unavailable`
    /// and `Unknown` as [`lock_in`](crate::PostgresStore::lock_in).
    ///
    /// # Cancel safety
    /// A dropped call has changed nothing.
    pub async fn check(&self, transaction: &mut PgConnection) -> Result<()> {
        let query = sqlx::query(self.holds.sql()).bind(&*self.namespace).bind(self.name.as_str());
        let query = query.persistent(false);
        let row = query.fetch_one(transaction).await.map_err(error::of_request);
        let holds = row.and_then(|row| row.try_get(0).map_err(|_| error::unexpected()));
        let context = |error: Error| error.context("check", "postgres", self.name.as_str());
        if holds.map_err(context)? {
            return Ok(());
        }
        Err(context(Error::new(ErrorKind::Lost, "the transaction does not have the mutex any more")))
    }
}

/// How a mutex is locked in a transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct LockInOptions {
    waits_not: bool,
    allows_old_snapshot: bool,
}

impl LockInOptions {
    /// Accepts transactions of the levels `REPEATABLE READ` and `SERIALIZABLE`. What they read may
    /// be older than the lock: a change that the last holder committed before is not seen. Say so
    /// only if the transaction does not read what the mutex guards.
    #[must_use]
    pub fn allow_old_snapshot(mut self) -> Self {
        self.allows_old_snapshot = true;
        self
    }

    pub(crate) fn without_waiting(mut self) -> Self {
        self.waits_not = true;
        self
    }
}

/// The transaction, and what its mutex is asked of.
pub(crate) struct Asked<'a> {
    pub(crate) context: &'a Context,
    /// It leads to the store's database.
    pub(crate) pool: &'a Arc<Pool>,
    pub(crate) transaction: &'a mut PgConnection,
    pub(crate) name: Name,
    pub(crate) options: LockInOptions,
    pub(crate) engine: &'a Engine,
    /// Whether sessions keep the other callers' mutexes.
    pub(crate) by_session: bool,
    /// When the transaction's own time limit is over.
    pub(crate) end: Option<Instant>,
}

impl Asked<'_> {
    /// Runs a statement in the transaction, with the namespace and the name in front of the other
    /// arguments.
    ///
    /// # Errors
    /// That of the statement; then the transaction can only be rolled back.
    async fn in_transaction(
        &mut self,
        text: &'static str,
        add: impl FnOnce(StatementArguments) -> StatementArguments,
    ) -> Result<PgRow> {
        let (statement, arguments) = self.request(text, add)?;
        // Behind a transaction pooler, the next transaction may be on another session.
        let query = sqlx::query_with(statement.sql(), arguments).persistent(false);
        Box::pin(query.fetch_one(&mut *self.transaction)).await.map_err(|error| match error::code(&error) {
            Some("55P03") => not_free_in_time().with_source(error),
            _ => error::of_request(error),
        })
    }

    /// Runs a statement over the store's own pool. If somebody else has a row locked, it is sent
    /// again until the caller's time or that of a request is over.
    async fn beside(
        &self,
        text: &'static str,
        add: impl Fn(StatementArguments) -> StatementArguments,
    ) -> Result<PgRow> {
        let limit = now() + self.pool.request_timeout();
        let end = self.end.map_or(limit, |end| end.min(limit));
        loop {
            let (statement, arguments) = self.request(text, &add)?;
            let sent = self.pool.rows_of_call(&statement, arguments, limit);
            match Box::pin(self.engine.on_own_connections(sent)).await {
                Err(error) if error::is_locked(&error) && !self.options.waits_not && now() < end => {
                    sleep(PAUSE).await;
                }
                rows => return rows?.into_iter().next().ok_or_else(error::unexpected),
            }
        }
    }

    /// Returns how long a statement may wait, in ms.
    fn slice_left(&self, slice: i64) -> i64 {
        let left = self.end.map(|end| end.saturating_duration_since(now()).as_millis());
        left.map_or(slice, |left| i64::try_from(left).unwrap_or(i64::MAX).clamp(1, slice))
    }

    fn request(
        &self,
        text: &'static str,
        add: impl FnOnce(StatementArguments) -> StatementArguments,
    ) -> Result<(Statement, PgArguments)> {
        let Self { context, name, .. } = self;
        let arguments = StatementArguments::default().with(&*context.namespace).with(name.as_str());
        Ok((context.schema.statement(text), add(arguments).complete()?))
    }

    fn locked(self, token: FencingToken, ticket: Ticket) -> TransactionLock {
        let Self { context, name, .. } = self;
        let holds = context.schema.statement(include_str!("../sql/session_holds_in.sql"));
        TransactionLock { namespace: Box::from(&*context.namespace), name, token, ticket, holds }
    }
}

fn old_snapshot() -> Error {
    let detail = "the transaction is not READ COMMITTED: it may not see what the last holder changed. See \
                  `LockInOptions::allow_old_snapshot`";
    Error::invalid_argument(detail)
}

pub(crate) fn outside_of_transaction() -> Error {
    let detail = "the connection is not in a transaction that was begun by `sqlx`: the lock would end with the statement";
    Error::invalid_argument(detail)
}

fn other_database() -> Error {
    Error::invalid_argument("the transaction is not one of the store's database")
}

fn not_free_in_time() -> Error {
    Error::new(ErrorKind::Timeout, "the mutex was not free within the `lock_timeout` of the transaction")
}
