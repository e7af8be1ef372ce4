//! A server, its clients and its counters.

use std::sync::Arc;

use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgPool, Row};
use stanchion_bench::Failure;
use stanchion_bench::raw::postgres::{connect, connections, statements};
use stanchion_core::{MutexMode, Store};
use stanchion_postgres::{PostgresBuilder, PostgresStore};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};
use tokio::runtime::{Builder, Runtime};

/// A server started for the bench, and a runtime with as many threads as the bench machines have
/// cores.
pub(crate) struct PostgresFixture {
    pub(crate) runtime: Runtime,
    url: String,
    _server: Option<PostgresServer>,
}

/// Counters of a server, since its start or between two readings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// Statements that clients have sent.
    pub(crate) statements: f64,
    /// Bytes of its log.
    pub(crate) wal: f64,
}

impl PostgresFixture {
    pub(crate) fn new() -> Result<Self, Failure> {
        let options = PostgresOptions::default()
            .fsync(true)
            .on_disk(true)
            .setting("synchronous_commit", "on")
            .setting("max_connections", "1000")
            .setting("shared_preload_libraries", "pg_stat_statements");
        let server = PostgresServer::start(options)?;
        server.sql("CREATE EXTENSION pg_stat_statements")?;
        let url = server.url();
        Ok(Self { _server: Some(server), ..Self::beside(&url)? })
    }

    /// Uses a server that another process has started.
    pub(crate) fn beside(url: &str) -> Result<Self, Failure> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        Ok(Self { runtime, url: url.to_owned(), _server: None })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn version(&self) -> Result<String, Failure> {
        let version = "SELECT split_part(current_setting('server_version'), ' ', 1)";
        let row = self
            .runtime
            .block_on(async { Ok::<_, Failure>(connect(&self.url).await?.fetch_one(version).await?) })?;
        Ok(row.try_get(0)?)
    }

    /// Opens a store, as another process would.
    pub(crate) fn store(&self, mode: MutexMode) -> Result<Arc<dyn Store>, Failure> {
        let builder = PostgresStore::builder(&self.url)?.namespace(namespace(mode)).mutex(mode);
        Ok(Arc::new(self.runtime.block_on(builder.connect())?))
    }

    /// Opens a store in lease mode over a user's own pool.
    pub(crate) fn store_over(&self, pool: PgPool) -> Result<Arc<dyn Store>, Failure> {
        let builder = PostgresBuilder::from_pool(pool).namespace("lease").mutex(MutexMode::Lease);
        Ok(Arc::new(self.runtime.block_on(builder.connect())?))
    }

    pub(crate) fn pool(&self, connections: usize) -> Result<PgPool, Failure> {
        let count = u32::try_from(connections)?;
        let options = PgPoolOptions::new().max_connections(count).test_before_acquire(false);
        Ok(self.runtime.block_on(options.connect(&self.url))?)
    }

    /// Returns the number of connections, without the one that asks.
    pub(crate) fn clients(&self) -> Result<f64, Failure> {
        self.runtime.block_on(async { connections(&mut connect(&self.url).await?).await })
    }

    /// Reads the counters of the server.
    pub(crate) async fn done(&self) -> Result<Done, Failure> {
        let mut watcher = connect(&self.url).await?;
        let wal = "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8 /* pg_stat_statements */";
        let wal = watcher.fetch_one(wal).await?.try_get(0)?;
        Ok(Done { statements: statements(&mut watcher).await?, wal })
    }
}

impl Done {
    /// Returns the difference to an earlier reading.
    pub(crate) fn since(self, before: Self) -> Self {
        Self { statements: self.statements - before.statements, wal: self.wal - before.wal }
    }
}

fn namespace(mode: MutexMode) -> &'static str {
    if mode == MutexMode::Session { "session" } else { "lease" }
}
