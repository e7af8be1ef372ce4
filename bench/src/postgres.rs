//! What people write by hand beside the Postgres store: an advisory lock of their own, and a counter in a row.

use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool, Row};

/// An error of the client's.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// An advisory lock by hand, over one connection: no queue, no fencing token, no limit to its life.
#[derive(Debug)]
pub struct BareLock {
    connection: PgConnection,
}

impl BareLock {
    /// Connects.
    ///
    /// # Errors
    /// The client's.
    pub async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self { connection: PgConnection::connect(url).await? })
    }

    /// Locks a key once and releases it.
    ///
    /// # Errors
    /// The client's; also if the key was not free.
    pub async fn pair(&mut self, key: i64) -> Result<(), Failure> {
        for statement in ["SELECT pg_try_advisory_lock($1)", "SELECT pg_advisory_unlock($1)"] {
            let row = sqlx::query(statement).bind(key).fetch_one(&mut self.connection).await?;
            if !row.try_get::<bool, _>(0)? {
                return Err("the key is not free".into());
            }
        }
        Ok(())
    }

    /// The time of one round trip with nothing to do.
    ///
    /// # Errors
    /// The client's.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    pub async fn round_trip(&mut self) -> Result<Duration, Failure> {
        let start = Instant::now();
        sqlx::query("SELECT 1").fetch_one(&mut self.connection).await?;
        Ok(start.elapsed())
    }
}

/// A row that everybody counts up, each change a commit.
#[derive(Clone, Debug)]
pub struct Counter {
    pool: PgPool,
}

impl Counter {
    /// Makes the row.
    ///
    /// # Errors
    /// The client's.
    pub async fn new(pool: PgPool) -> Result<Self, Failure> {
        pool.execute("CREATE TABLE bare (id int PRIMARY KEY, value bigint NOT NULL) WITH (fillfactor = 50)")
            .await?;
        pool.execute("INSERT INTO bare VALUES (1, 0)").await?;
        Ok(Self { pool })
    }

    /// Counts up.
    ///
    /// # Errors
    /// The client's.
    pub async fn bump(&self) -> Result<(), Failure> {
        let update = sqlx::query("UPDATE bare SET value = value + 1 WHERE id = $1").bind(1);
        update.execute(&self.pool).await?;
        Ok(())
    }
}

/// How many statements clients have sent, but for those that this connection has.
///
/// # Errors
/// The client's, also where `pg_stat_statements` was not loaded.
pub async fn statements(connection: &mut PgConnection) -> Result<i64, Failure> {
    let count = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'";
    Ok(connection.fetch_one(AssertSqlSafe(count.to_owned())).await?.try_get(0)?)
}
