//! Notices when the server itself is slow.
//!
//! On a busy machine a call can be late although its own process got the processor: the server's
//! processes wait for the processor and for the disk as well. A request that has nothing to do with
//! the store's tables and connections shows that.

use std::io;
use std::time::Duration;

use stanchion::postgres::sqlx::{self, Connection, Executor, PgConnection};
use stanchion_core::clock::sleep;
use tokio::runtime::{self, Runtime};

use crate::history::clock;

/// The pause between two requests, and the duration in µs above which a request counts as slow.
const PAUSE: Duration = Duration::from_millis(10);
const SLOW: u64 = 50_000;

const PREPARE: &str = "
CREATE SCHEMA IF NOT EXISTS neighbour;
CREATE TABLE IF NOT EXISTS neighbour.monitor (requests bigint NOT NULL);
TRUNCATE neighbour.monitor;
INSERT INTO neighbour.monitor VALUES (0)";

/// As most requests of the store, it changes a row and commits.
const REQUEST: &str = "UPDATE neighbour.monitor SET requests = requests + 1";

/// A connection that makes one request after the other, and tells which of them were slow.
#[derive(Debug)]
pub(super) struct ServerMonitor {
    _runtime: Runtime,
}

impl ServerMonitor {
    /// Starts a thread of its own. `tell` receives the end of each slow request and its length, in
    /// µs. If it fails, the requests end.
    pub(super) fn start(
        url: String,
        tell: impl Fn(u64, u64) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        runtime.spawn(async move {
            while let Err(sqlx::Error::Io(_) | sqlx::Error::Database(_)) = watch(&url, &tell).await {
                sleep(PAUSE).await;
            }
        });
        Ok(Self { _runtime: runtime })
    }
}

async fn watch(url: &str, tell: &(impl Fn(u64, u64) -> io::Result<()> + Sync)) -> sqlx::Result<()> {
    let mut connection = PgConnection::connect(url).await?;
    connection.execute(PREPARE).await?;
    loop {
        let begin = clock::now();
        connection.execute(REQUEST).await?;
        let end = clock::now();
        let length = end.saturating_sub(begin);
        if length > SLOW && tell(end, length).is_err() {
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

    use super::*;

    /// Keeps the row of the monitor from it for 100 ms after it has asked.
    const DELAY: &str = "
DO $$ BEGIN
    LOCK TABLE neighbour.monitor;
    LOOP
        EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE relation = 'neighbour.monitor'::regclass AND NOT granted);
    END LOOP;
    PERFORM pg_sleep(0.1);
END $$";

    #[test]
    fn a_slow_request_is_told() {
        let server = PostgresServer::start(PostgresOptions::default()).unwrap();
        let (sender, told) = mpsc::channel();
        let monitor = ServerMonitor::start(server.url(), move |end, length| {
            sender.send((end - length, length)).map_err(io::Error::other)
        });
        let _monitor = monitor.unwrap();
        while server.sql("SELECT FROM neighbour.monitor").is_err() {}
        let begin = clock::now();
        server.sql(DELAY).unwrap();
        let end = clock::now();
        // A busy machine has slow requests of its own.
        let is_delayed = |(at, length)| length >= 100_000 && at < end && at + length >= begin + 100_000;
        assert!(told.iter().any(is_delayed));
    }
}
