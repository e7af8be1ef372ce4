//! Processes that drive the steps by themselves, in a namespace of their own.

#![allow(dead_code, unused_imports, reason = "each test file uses a part of it")]

mod steps;

use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
pub(crate) use stanchion_conformance::steps::Process;
pub(crate) use stanchion_conformance::steps::drive::*;
use stanchion_core::Ticket;
use stanchion_redis::{RedisBuilder, RedisStore, StepsOfStore};
use stanchion_testbed::servers::{self, RedisOptions, RedisServer};

/// A namespace on a server.
pub(crate) struct Bed {
    pub(crate) url: String,
    pub(crate) namespace: String,
    looking: tokio::sync::OnceCell<MultiplexedConnection>,
}

impl Bed {
    /// On the server that all tests of this process share.
    pub(crate) fn shared() -> Self {
        Self::on(servers::redis().expect("a redis-server").url())
    }

    pub(crate) fn on(url: &str) -> Self {
        Self { url: url.to_owned(), namespace: format!("t{}", Ticket::random()), looking: Default::default() }
    }

    pub(crate) fn builder(&self) -> RedisBuilder {
        RedisStore::builder(&self.url).expect("a URL").namespace(&self.namespace)
    }

    /// Another process: an identity and connections of its own.
    pub(crate) async fn process(&self) -> Process {
        driven(self.builder().steps().await.expect("steps"))
    }

    /// A plain client.
    pub(crate) async fn raw(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.url.as_str()).expect("a URL");
        connected(&client).await
    }

    /// One plain client for all that is asked over and over.
    async fn looking(&self) -> MultiplexedConnection {
        self.looking.get_or_init(|| self.raw()).await.clone()
    }

    /// Commands the server has executed so far, those inside scripts included.
    pub(crate) async fn calls(&self) -> u64 {
        let mut raw = self.looking().await;
        let info: String = redis::cmd("INFO").arg("stats").query_async(&mut raw).await.expect("stats");
        let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
        line.expect("a counter").trim().parse().expect("a number")
    }

    /// The namespace's keys but for its layout.
    pub(crate) async fn keys(&self) -> Vec<String> {
        self.keys_by(self.raw().await).await
    }

    /// The same over a connection that is there.
    async fn keys_by(&self, mut raw: MultiplexedConnection) -> Vec<String> {
        let pattern = format!("{{{}/*", self.namespace);
        let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query_async(&mut raw).await.expect("keys");
        keys.into_iter().filter(|key| !key.ends_with("}:layout")).collect()
    }
}

/// A plain client's connection that waits for its answers: by itself it would give up after half a second.
pub(crate) async fn connected(client: &redis::Client) -> MultiplexedConnection {
    let patience = Some(Duration::from_secs(30));
    let config = AsyncConnectionConfig::new().set_response_timeout(patience).set_connection_timeout(patience);
    client.get_multiplexed_async_connection_with_config(&config).await.expect("a connection")
}

/// A process with these steps.
pub(crate) fn driven(steps: StepsOfStore) -> Process {
    Process::new(steps.callers, steps.own, steps.wake)
}

/// A private server, and a namespace on it.
pub(crate) fn start(options: RedisOptions) -> (RedisServer, Bed) {
    let server = RedisServer::start(options).expect("a redis-server");
    let bed = Bed::on(&server.url());
    (server, bed)
}
