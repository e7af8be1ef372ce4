//! Hand-written code on Postgres: an advisory lock, and a counter in a row.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool, Row};
use tokio::sync::Mutex;

use crate::Failure;
use crate::decider::Decider;
use crate::lock::Lock;

/// A hand-written advisory lock over one connection that all clones share: no queue, no fencing token, no limit to its
/// life, and no caller waits.
#[derive(Clone, Debug)]
pub struct BareLock {
    connection: Arc<Mutex<PgConnection>>,
    key: i64,
}

impl BareLock {
    /// Creates a lock for a key, over this connection.
    #[must_use]
    pub fn new(connection: &Arc<Mutex<PgConnection>>, key: i64) -> Self {
        Self { connection: Arc::clone(connection), key }
    }

    async fn ask(&self, statement: &'static str) -> Result<(), Failure> {
        let mut connection = self.connection.lock().await;
        let row = sqlx::query(statement).bind(self.key).fetch_one(&mut *connection).await?;
        if row.try_get::<bool, _>(0)? { Ok(()) } else { Err("the key is not free".into()) }
    }
}

impl Lock for BareLock {
    type Guard = ();

    async fn lock(&self) -> Result<(), Failure> {
        self.ask("SELECT pg_try_advisory_lock($1)").await
    }

    async fn release(&self, (): ()) -> Result<(), Failure> {
        self.ask("SELECT pg_advisory_unlock($1)").await
    }
}

/// An advisory lock that waits, with a connection for each holder and waiter.
#[derive(Clone, Debug)]
pub struct WaitingLock {
    pool: PgPool,
    key: i64,
}

impl WaitingLock {
    /// Creates a lock for a key, over connections of this pool.
    #[must_use]
    pub fn new(pool: PgPool, key: i64) -> Self {
        Self { pool, key }
    }
}

impl Lock for WaitingLock {
    type Guard = sqlx::pool::PoolConnection<sqlx::Postgres>;

    async fn lock(&self) -> Result<Self::Guard, Failure> {
        let mut connection = self.pool.acquire().await?;
        sqlx::query("SELECT pg_advisory_lock($1)").bind(self.key).execute(&mut *connection).await?;
        Ok(connection)
    }

    async fn release(&self, mut held: Self::Guard) -> Result<(), Failure> {
        sqlx::query("SELECT pg_advisory_unlock($1)").bind(self.key).execute(&mut *held).await?;
        Ok(())
    }
}

/// Rows with counters; each change is a commit.
#[derive(Clone, Debug)]
pub struct Counter {
    pool: PgPool,
    update: Arc<str>,
}

impl Counter {
    /// Maximum number of rows.
    const ROWS: usize = 10_000;

    /// Creates a table with this name, with its rows.
    ///
    /// # Errors
    /// The errors of the client.
    pub async fn new(pool: PgPool, table: &str) -> Result<Self, Failure> {
        let rows = Self::ROWS;
        let make = format!(
            "CREATE TABLE bare_{table} (id int PRIMARY KEY, value bigint NOT NULL) WITH (fillfactor = 50);
             INSERT INTO bare_{table} SELECT id, 0 FROM generate_series(0, {rows} - 1) AS id"
        );
        pool.execute(AssertSqlSafe(make)).await?;
        let update = format!("UPDATE bare_{table} SET value = value + 1 WHERE id = $1");
        Ok(Self { pool, update: update.into() })
    }

    async fn bump(&self, row: usize) -> Result<(), Failure> {
        let update =
            sqlx::query(AssertSqlSafe(Arc::clone(&self.update))).bind(i32::try_from(row % Self::ROWS)?);
        update.execute(&self.pool).await?;
        Ok(())
    }
}

/// An acquisition is one update, and so is a release.
impl Lock for Counter {
    type Guard = ();

    async fn lock(&self) -> Result<(), Failure> {
        self.bump(0).await
    }

    async fn release(&self, (): ()) -> Result<(), Failure> {
        self.bump(0).await
    }
}

/// A decision is one update.
impl Decider for Counter {
    async fn allow(&self, name: usize) -> Result<bool, Failure> {
        self.bump(name).await.map(|()| true)
    }
}

/// Returns the number of statements that clients have sent, except those that count them.
///
/// # Errors
/// The errors of the client, also if `pg_stat_statements` is not loaded.
pub async fn statements(connection: &mut PgConnection) -> Result<f64, Failure> {
    let count = "SELECT coalesce(sum(calls), 0)::float8 FROM pg_stat_statements WHERE query NOT LIKE \
        '%pg_stat_statements%'";
    Ok(connection.fetch_one(AssertSqlSafe(count.to_owned())).await?.try_get(0)?)
}

/// Returns the number of other connections.
///
/// # Errors
/// The errors of the client.
pub async fn connections(connection: &mut PgConnection) -> Result<f64, Failure> {
    let count = "SELECT count(*)::float8 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> \
        pg_backend_pid()";
    Ok(connection.fetch_one(count).await?.try_get(0)?)
}

/// Opens a connection.
///
/// # Errors
/// The errors of the client.
pub async fn connect(url: &str) -> Result<PgConnection, Failure> {
    Ok(PgConnection::connect(url).await?)
}
