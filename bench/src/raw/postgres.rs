//! Hand-written code on Postgres: an advisory lock, a lease in a row, a notification to whoever
//! waits, and a counter in a row.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::postgres::PgListener;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool, Row};
use tokio::sync::Mutex;

use crate::Failure;
use crate::decider::Decider;
use crate::lock::Lock;

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

/// A lease in a row: taking it is one update that commits, and so is giving it back. No queue, no
/// renewal, no fencing token, and no caller waits.
#[derive(Clone, Debug)]
pub struct LeaseRow {
    pool: PgPool,
    row: i32,
}

impl LeaseRow {
    /// Creates `count` leases, each in a row of its own of a table with this name.
    ///
    /// # Errors
    /// The errors of the client.
    pub async fn many(pool: &PgPool, count: usize) -> Result<Vec<Self>, Failure> {
        let rows = i32::try_from(count)?;
        let make = "CREATE TABLE IF NOT EXISTS bare_leases (
                        id int PRIMARY KEY, holder bigint, expiry timestamptz NOT NULL) WITH (fillfactor = 50)";
        pool.execute(make).await?;
        let fill = "INSERT INTO bare_leases SELECT id, NULL, '-infinity' FROM generate_series(1, $1) AS id
                    ON CONFLICT DO NOTHING";
        sqlx::query(fill).bind(rows).execute(pool).await?;
        Ok((1..=rows).map(|row| Self { pool: pool.clone(), row }).collect())
    }

    async fn update(&self, statement: &'static str) -> Result<(), Failure> {
        let done = sqlx::query(statement).bind(self.row).execute(&self.pool).await?;
        if done.rows_affected() == 1 { Ok(()) } else { Err("the lease is not free, or not held".into()) }
    }
}

impl Lock for LeaseRow {
    type Guard = ();

    async fn lock(&self) -> Result<(), Failure> {
        self.update(
            "UPDATE bare_leases SET holder = 1, expiry = clock_timestamp() + interval '30 s'
             WHERE id = $1 AND expiry < clock_timestamp()",
        )
        .await
    }

    async fn release(&self, (): ()) -> Result<(), Failure> {
        self.update("UPDATE bare_leases SET holder = NULL, expiry = '-infinity' WHERE id = $1 AND holder = 1")
            .await
    }
}

/// A turn that two clients pass to each other by `NOTIFY`, without a lock, a queue or a fencing
/// token. Each has two connections.
#[derive(Clone, Debug)]
pub struct Turn {
    shared: Arc<TurnState>,
    mine: &'static str,
    other: &'static str,
    listener: Arc<Mutex<PgListener>>,
    teller: Arc<Mutex<PgConnection>>,
}

#[derive(Debug, Default)]
struct TurnState {
    is_taken: AtomicBool,
    is_wanted: AtomicBool,
}

impl Turn {
    /// Creates the two clients.
    ///
    /// # Errors
    /// The errors of the client.
    pub async fn pair(url: &str) -> Result<[Self; 2], Failure> {
        let shared = Arc::new(TurnState::default());
        let client = async |mine, other| {
            let mut listener = PgListener::connect(url).await?;
            listener.listen(mine).await?;
            let (listener, teller) =
                (Arc::new(Mutex::new(listener)), Arc::new(Mutex::new(connect(url).await?)));
            Ok::<_, Failure>(Self { shared: Arc::clone(&shared), mine, other, listener, teller })
        };
        Ok([client("bare_one", "bare_two").await?, client("bare_two", "bare_one").await?])
    }
}

impl Lock for Turn {
    type Guard = ();

    async fn lock(&self) -> Result<(), Failure> {
        if !self.shared.is_taken.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.shared.is_wanted.store(true, Ordering::SeqCst);
        let told = self.listener.lock().await.recv().await?;
        if told.channel() == self.mine { Ok(()) } else { Err("told something else".into()) }
    }

    async fn release(&self, (): ()) -> Result<(), Failure> {
        if !self.shared.is_wanted.swap(false, Ordering::SeqCst) {
            self.shared.is_taken.store(false, Ordering::SeqCst);
            return Ok(());
        }
        let tell = sqlx::query("SELECT pg_notify($1, '')").bind(self.other);
        tell.execute(&mut *self.teller.lock().await).await?;
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
