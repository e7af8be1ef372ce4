//! A private server and its counters.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{PATIENT, connected};
use redis::aio::MultiplexedConnection;
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_core::{Inspection, Mutex, Store};
use stanchion_redis::RedisStore;
use stanchion_testbed::servers::{RedisOptions, RedisServer};
use tokio::time::sleep;

/// A private server, and a plain client of the test.
pub struct ServerFixture {
    pub server: RedisServer,
    pub raw: MultiplexedConnection,
}

impl ServerFixture {
    pub async fn start() -> Self {
        let server = RedisServer::start(RedisOptions::default()).expect("a private redis-server");
        let client = redis::Client::open(server.url()).expect("a URL that parses");
        let raw = connected(&client).await;
        Self { server, raw }
    }

    pub async fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.redis_store().await)
    }

    pub async fn redis_store(&self) -> RedisStore {
        let builder = RedisStore::builder(&self.server.url()).expect("a URL").request_timeout(PATIENT);
        builder.connect().await.expect("a store")
    }

    /// Returns the requests on the wire so far, by command, without the calls inside scripts.
    pub async fn wire_commands(&mut self) -> HashMap<String, u64> {
        let info: String =
            redis::cmd("INFO").arg("commandstats").query_async(&mut self.raw).await.expect("commandstats");
        let on_the_wire =
            ["eval", "evalsha", "blpop", "lpop", "ping", "script|load", "hello", "client|setinfo"];
        info.lines()
            .filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="))
            .filter(|(command, _)| on_the_wire.contains(command))
            .filter_map(|(command, rest)| Some((command.to_owned(), rest.split(',').next()?.parse().ok()?)))
            .collect()
    }

    /// Returns the requests on the wire so far.
    pub async fn commands(&mut self) -> u64 {
        self.wire_commands().await.values().sum()
    }

    /// Returns the number of connections, without that of the plain client.
    pub async fn connections(&mut self) -> usize {
        let list: String =
            redis::cmd("CLIENT").arg("LIST").query_async(&mut self.raw).await.expect("client list");
        list.lines().count() - 1
    }
}

/// Waits until an inspection of the mutex satisfies `seen`.
pub async fn until(mutex: &dyn Mutex, timeout: Duration, what: &str, seen: impl Fn(&Inspection) -> bool) {
    let watch = Stopwatch::start();
    loop {
        let inspection = mutex.inspect().await.expect("inspect answers");
        if seen(&inspection) {
            return;
        }
        assert!(watch.elapsed() < timeout, "{what} within {timeout:?}, not {inspection:?}");
        sleep(Duration::from_millis(5)).await;
    }
}
