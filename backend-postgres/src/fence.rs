//! The resource's side of fencing, for resources in a Postgres database ([M9]).
//!
//! [M9]: stanchion_core::contract#m9

use sqlx::postgres::{PgArguments, PgDatabaseError};
use sqlx::types::Uuid;
use sqlx::{Arguments, Executor, PgConnection, Postgres};
use stanchion_core::{Error, ErrorKind, FencingToken, GrantId, Result};

use crate::error;
use crate::schema::{Schema, Statement};
use crate::strangers;

/// The SQLSTATE that the server raises for a refused [`PostgresFence::check`].
const REFUSED: &str = "STF01";
const INSTALL: &str = concat!(
    include_str!("sql/fence_begin.sql"),
    include_str!("../schema/0006_fences.sql"),
    include_str!("../functions/fenced.sql"),
    include_str!("../functions/fence.sql"),
    include_str!("../functions/fence_hand_over.sql"),
);

/// A resource in a Postgres database that only the newest holder of a mutex may write ([M9]). The
/// database may be another one than the one that keeps the mutex.
///
/// The check runs in the transaction that writes. It refuses a token that is smaller than the
/// largest one seen, and the same token from another ticket. It stops a holder that was paused
/// until after the end of its lease; a lock cannot. The largest token is a row of the table
/// `stanchion.fences`, which stays locked until the transaction ends: a newer holder's write comes
/// after it. Keep such a transaction short; while it is open, newer holders wait.
///
/// From Rust, call [`check`](Self::check) in the transaction, before the first write:
///
/// ```no_run
/// # use sqlx::{Connection, PgConnection};
/// # use stanchion_core::MutexGuard;
/// use stanchion_postgres::PostgresFence;
///
/// # async fn pay(connection: &mut PgConnection, guard: &MutexGuard) -> Result<(), Box<dyn std::error::Error>> {
/// let fence = PostgresFence::new("invoices/42");
/// let mut transaction = connection.begin().await?;
/// fence.check(&mut *transaction, guard).await?;
/// sqlx::query("UPDATE invoices SET paid = true WHERE id = 42").execute(&mut *transaction).await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// From SQL, use one statement. If it changes no row, it was refused:
///
/// ```sql
/// UPDATE invoices SET paid = true WHERE id = 42 AND stanchion.fenced('invoices/42', $1, $2);
/// ```
///
/// `$1` is the fencing token, a `bigint`, and `$2` the ticket, a `uuid`. `SELECT
/// stanchion.fence(…)` with the same arguments raises SQLSTATE `STF01` instead, so that the
/// transaction cannot be committed.
///
/// [M9]: stanchion_core::contract#m9
#[derive(Clone, Debug)]
pub struct PostgresFence {
    resource: String,
    schema: Schema,
    /// A role that may own the schema, beside those that are trusted anyway.
    owner: Option<String>,
    check: Statement,
    hand_over: Statement,
}

impl PostgresFence {
    /// Makes a fence around a resource with a name of 1 to 512 bytes. Its row is in the schema
    /// `stanchion`.
    #[must_use]
    pub fn new(resource: impl Into<String>) -> Self {
        Self::over(resource.into(), Schema::default())
    }

    /// Makes a fence whose row is in another schema.
    ///
    /// # Errors
    /// `InvalidArgument` unless the schema name is 1 to 63 of `a-z 0-9 _`, beginning with a letter.
    pub fn in_schema(resource: impl Into<String>, schema: &str) -> Result<Self> {
        Ok(Self::over(resource.into(), Schema::new(schema)?))
    }

    fn over(resource: String, schema: Schema) -> Self {
        let check = schema.statement(include_str!("sql/fence.sql"));
        let hand_over = schema.statement(include_str!("sql/fence_hand_over.sql"));
        Self { resource, schema, owner: None, check, hand_over }
    }

    /// Names a role that may own the schema, or change it, as
    /// [`PostgresBuilder::schema_owner`](crate::PostgresBuilder::schema_owner) does.
    #[must_use]
    pub fn schema_owner(mut self, role: impl Into<String>) -> Self {
        self.owner = Some(role.into());
        self
    }

    /// Makes the table and the functions of fences in a database in which no store has made them.
    /// Existing ones stay. Then looks whether a role that is not trusted could change them:
    /// [`check`](Self::check) would run its code ([C30]).
    ///
    /// # Errors
    /// `Unauthorized` without the right to create a schema and its tables and functions;
    /// `UnsafeStore` naming the role and its right, with the cure; otherwise the error of the
    /// connection.
    ///
    /// # Cancel safety
    /// A dropped call has made all of them or none. In a transaction of the user's it may have
    /// changed the transaction's `search_path`.
    ///
    /// [C30]: stanchion_core::contract#c30
    pub async fn install(&self, connection: &mut PgConnection) -> Result<()> {
        let all = self.schema.statement(INSTALL).sql();
        sqlx::raw_sql(all).execute(&mut *connection).await.map_err(error::of_request)?;
        // The transaction may be the user's.
        let path = "SELECT pg_catalog.current_setting('search_path')";
        let path: String = sqlx::query_scalar(path)
            .persistent(false)
            .fetch_one(&mut *connection)
            .await
            .map_err(error::of_request)?;
        let checked = strangers::check(connection, &self.schema, self.owner.as_deref()).await;
        let back = sqlx::query("SELECT pg_catalog.set_config('search_path', $1, true)").bind(path);
        let back = back.persistent(false).execute(connection).await;
        checked?;
        back.map(drop).map_err(error::of_request)
    }

    /// Checks that the token does not belong to an older holder. Call it in the transaction that
    /// writes, before the first write. Do not call it with a pool: the check would be a transaction
    /// of its own, and guard nothing.
    ///
    /// # Errors
    /// `Lost` if a larger token was seen, or the same one from another ticket; `Unavailable` if the
    /// server refused the statement, as it does above `READ COMMITTED` if another holder wrote
    /// meanwhile. After either error, the transaction can only be rolled back.
    ///
    /// # Cancel safety
    /// As the connection: a transaction whose statement was dropped is rolled back.
    pub async fn check<'e>(
        &self,
        executor: impl Executor<'e, Database = Postgres>,
        by: impl Into<GrantId>,
    ) -> Result<()> {
        self.run("check", &self.check, executor, by.into()).await
    }

    /// Lets the new ticket of an attached hold write with the token that the hold kept. No earlier
    /// ticket may write any more; see [`Fenced::hand_over`](stanchion_core::Fenced::hand_over).
    ///
    /// # Errors
    /// `Lost` if a larger token was seen; otherwise as [`check`](Self::check).
    ///
    /// # Cancel safety
    /// As [`check`](Self::check).
    pub async fn hand_over<'e>(
        &self,
        executor: impl Executor<'e, Database = Postgres>,
        to: impl Into<GrantId>,
    ) -> Result<()> {
        self.run("hand_over", &self.hand_over, executor, to.into()).await
    }

    async fn run<'e>(
        &self,
        operation: &'static str,
        statement: &Statement,
        executor: impl Executor<'e, Database = Postgres>,
        by: GrantId,
    ) -> Result<()> {
        let answer = self.ask(statement, executor, by).await;
        answer.map_err(|error| error.context(operation, "postgres", &self.resource))
    }

    async fn ask<'e>(
        &self,
        statement: &Statement,
        executor: impl Executor<'e, Database = Postgres>,
        GrantId { token, ticket }: GrantId,
    ) -> Result<()> {
        let mut arguments = PgArguments::default();
        let unfit =
            |error| Error::new(ErrorKind::InvalidArgument, "an argument does not fit").with_source(error);
        arguments.add(self.resource.as_str()).map_err(unfit)?;
        arguments.add(i64::from(token)).map_err(unfit)?;
        arguments.add(Uuid::from_u128(ticket.as_u128())).map_err(unfit)?;
        let answer = sqlx::query_with(statement.sql(), arguments).persistent(false).execute(executor).await;
        answer.map(drop).map_err(|error| {
            let code = error.as_database_error().and_then(|error| error.code());
            if code.as_deref() == Some(REFUSED) {
                return Error::fenced_off(token, largest(&error)).with_source(error);
            }
            error::of_request(error)
        })
    }
}

/// Returns the largest token seen, which the server adds to a refusal.
fn largest(error: &sqlx::Error) -> Option<FencingToken> {
    let detail = error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()?.detail()?;
    FencingToken::new(detail.parse().ok()?).ok()
}
