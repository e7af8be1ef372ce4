//! The resource's side of fencing, for resources in a Postgres (M9).

use sqlx::postgres::PgArguments;
use sqlx::types::Uuid;
use sqlx::{Arguments, Executor, PgConnection, Postgres};
use stanchion_core::{Error, ErrorKind, FencingToken, Result, Ticket};

use crate::error;
use crate::schema::{Schema, Statement};

/// What [`PostgresFence::check`] makes the server raise.
const REFUSED: &str = "STF01";
const INSTALL: &str = concat!(
    include_str!("sql/fence_begin.sql"),
    include_str!("../migrations/0400_fences.sql"),
    include_str!("../migrations/0401_fenced.sql"),
    include_str!("../migrations/0402_fence.sql"),
    include_str!("../migrations/0403_fence_hand_over.sql"),
);

/// A resource in a Postgres that only the newest holder of a mutex may write (M9). The database may be any, not only the
/// one that keeps the mutex.
///
/// A token smaller than the largest seen is refused, and the same token from another ticket, in the transaction that
/// writes. This is what stops a holder that was paused past its lease; no lock can. The mark is a row of the table
/// `stanchion.fences`, locked until the transaction ends: what a newer holder writes comes after it. So keep such a
/// transaction short; while it is open, newer holders wait.
///
/// From Rust, [`check`](Self::check) in the transaction, before the first write:
///
/// ```no_run
/// # use sqlx::{Connection, PgConnection};
/// # use stanchion_core::MutexGuard;
/// use stanchion_postgres::PostgresFence;
///
/// # async fn pay(connection: &mut PgConnection, guard: &MutexGuard) -> Result<(), Box<dyn std::error::Error>> {
/// let fence = PostgresFence::new("invoices/42");
/// let mut transaction = connection.begin().await?;
/// fence.check(&mut *transaction, guard.fencing_token(), guard.ticket()).await?;
/// sqlx::query("UPDATE invoices SET paid = true WHERE id = 42").execute(&mut *transaction).await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// From SQL, in one statement, whose count of rows says whether it was refused:
///
/// ```sql
/// UPDATE invoices SET paid = true WHERE id = 42 AND stanchion.fenced('invoices/42', $1, $2);
/// ```
///
/// where `$1` is the fencing token, a `bigint`, and `$2` the ticket, a `uuid`. `SELECT stanchion.fence(…)` with the same
/// arguments raises SQLSTATE `STF01` instead, so that the transaction cannot be committed.
#[derive(Clone, Debug)]
pub struct PostgresFence {
    resource: String,
    schema: Schema,
    check: Statement,
    hand_over: Statement,
}

impl PostgresFence {
    /// A fence around what you call by that name, 1 to 512 bytes. Marks are in the schema `stanchion`.
    #[must_use]
    pub fn new(resource: impl Into<String>) -> Self {
        Self::over(resource.into(), Schema::default())
    }

    /// The same with marks in another schema.
    ///
    /// # Errors
    /// `InvalidArgument` unless its name is 1 to 63 of `a-z 0-9 _`, beginning with a letter.
    pub fn in_schema(resource: impl Into<String>, schema: &str) -> Result<Self> {
        Ok(Self::over(resource.into(), Schema::new(schema)?))
    }

    fn over(resource: String, schema: Schema) -> Self {
        let check = schema.statement(include_str!("sql/fence.sql"));
        let hand_over = schema.statement(include_str!("sql/fence_hand_over.sql"));
        Self { resource, schema, check, hand_over }
    }

    /// Makes the table and the functions of fences in a database where no store has. What is there stays.
    ///
    /// # Errors
    /// `Unauthorized` without the right to create a schema and what is in it; otherwise as the connection.
    ///
    /// # Cancel safety
    /// A dropped call has made all or nothing.
    pub async fn install(&self, connection: &mut PgConnection) -> Result<()> {
        let all = self.schema.statement(INSTALL).sql();
        sqlx::raw_sql(all).execute(connection).await.map(drop).map_err(error::of_request)
    }

    /// Lets the transaction go on if the token is not an older holder's. Call it in the transaction that writes, before
    /// the first write: with a pool instead of a transaction it would end before, and guard nothing.
    ///
    /// # Errors
    /// `Lost` if a larger token was seen, or the same one from another ticket; `Unavailable` where the server refused the
    /// statement, as it does above `READ COMMITTED` when another holder wrote meanwhile. After either, the transaction can
    /// only be rolled back.
    ///
    /// # Cancel safety
    /// As the connection: a transaction whose statement was dropped is rolled back.
    pub async fn check<'e>(
        &self,
        executor: impl Executor<'e, Database = Postgres>,
        token: FencingToken,
        ticket: Ticket,
    ) -> Result<()> {
        self.run(&self.check, executor, token, ticket).await
    }

    /// Lets the new ticket of an attached hold write with the token it kept, and no earlier ticket any more; see
    /// [`Fenced::hand_over`](stanchion_core::Fenced::hand_over).
    ///
    /// # Errors
    /// `Lost` if a larger token was seen; otherwise as [`check`](Self::check).
    ///
    /// # Cancel safety
    /// As [`check`](Self::check).
    pub async fn hand_over<'e>(
        &self,
        executor: impl Executor<'e, Database = Postgres>,
        token: FencingToken,
        to: Ticket,
    ) -> Result<()> {
        self.run(&self.hand_over, executor, token, to).await
    }

    async fn run<'e>(
        &self,
        statement: &Statement,
        executor: impl Executor<'e, Database = Postgres>,
        token: FencingToken,
        ticket: Ticket,
    ) -> Result<()> {
        let mut arguments = PgArguments::default();
        let token =
            i64::try_from(token.get()).map_err(|_| Error::invalid_argument("a token is below 2^53"))?;
        let unfit =
            |error| Error::new(ErrorKind::InvalidArgument, "an argument does not fit").with_source(error);
        arguments.add(self.resource.as_str()).map_err(unfit)?;
        arguments.add(token).map_err(unfit)?;
        arguments.add(Uuid::from_u128(ticket.as_u128())).map_err(unfit)?;
        let answer = sqlx::query_with(statement.sql(), arguments).execute(executor).await;
        answer.map(drop).map_err(|error| {
            let code = error.as_database_error().and_then(|error| error.code());
            if code.as_deref() == Some(REFUSED) {
                return Error::lost().with_source(error);
            }
            error::of_request(error)
        })
    }
}
