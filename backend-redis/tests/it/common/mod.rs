//! Fixtures of all tests: namespaces, servers, deployments, and processes that drive the steps by
//! themselves.

#![allow(dead_code, unused_imports, reason = "each test file uses a part of it")]

pub(crate) mod deployment;
pub(crate) mod private_server;
mod steps;

use std::sync::Arc;
use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
pub(crate) use stanchion_conformance::steps::Process;
pub(crate) use stanchion_conformance::steps::drive::*;
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_core::spi::{Acquire, Acquired};
use stanchion_core::{FencingToken, Ticket, Ttl};
use stanchion_redis::{RedisBuilder, RedisStore, StepsOfStore};
use stanchion_testbed::servers::{self, RedisOptions, RedisServer};
use tokio::time::Instant;

/// Longer than a busy machine keeps a request, or a login. The effect of a request's time limit has
/// cases of its own.
pub(crate) const PATIENT: Duration = Duration::from_secs(10);

/// A namespace on a server.
pub(crate) struct Fixture {
    pub(crate) url: String,
    pub(crate) namespace: String,
    shared_raw: tokio::sync::OnceCell<MultiplexedConnection>,
}

impl Fixture {
    /// Makes a namespace on the server that all tests of this process share.
    pub(crate) fn shared() -> Self {
        Self::on(servers::redis().expect("a redis-server").url())
    }

    /// Makes a namespace on the server at this URL.
    pub(crate) fn on(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            namespace: format!("t{}", Ticket::random()),
            shared_raw: Default::default(),
        }
    }

    /// Makes a builder with the default time limits.
    pub(crate) fn builder(&self) -> RedisBuilder {
        RedisStore::builder(&self.url).expect("a URL").namespace(&self.namespace)
    }

    /// Makes another process, with an identity and connections of its own.
    pub(crate) async fn process(&self) -> Process {
        driven(self.builder().request_timeout(PATIENT).steps().await.expect("steps"))
    }

    /// Connects a plain client.
    pub(crate) async fn raw(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.url.as_str()).expect("a URL");
        connected(&client).await
    }

    /// Returns a plain client that many questions share.
    async fn shared_raw(&self) -> MultiplexedConnection {
        self.shared_raw.get_or_init(|| self.raw()).await.clone()
    }

    /// Returns how many commands the server has executed so far, including commands inside scripts.
    pub(crate) async fn calls(&self) -> u64 {
        let mut raw = self.shared_raw().await;
        let info: String = redis::cmd("INFO").arg("stats").query_async(&mut raw).await.expect("stats");
        let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
        line.expect("a counter").trim().parse().expect("a number")
    }

    /// Returns the keys of the namespace except those that stay for good: its layout and the marks
    /// of its stripes.
    pub(crate) async fn keys(&self) -> Vec<String> {
        let mut keys = self.keys_by(self.raw().await).await;
        keys.retain(|key| !key.ends_with("}:mark"));
        keys
    }

    /// Returns the keys of the namespace except its layout, over this connection.
    async fn keys_by(&self, mut raw: MultiplexedConnection) -> Vec<String> {
        let pattern = format!("{{{}/*", self.namespace);
        let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query_async(&mut raw).await.expect("keys");
        keys.into_iter().filter(|key| !key.ends_with("}:layout")).collect()
    }
}

/// Connects a plain client that waits for its answers. By default it would give up after half a
/// second.
pub(crate) async fn connected(client: &redis::Client) -> MultiplexedConnection {
    let patience = Some(Duration::from_secs(30));
    let config = AsyncConnectionConfig::new().set_response_timeout(patience).set_connection_timeout(patience);
    client.get_multiplexed_async_connection_with_config(&config).await.expect("a connection")
}

/// Makes a process with these steps.
pub(crate) fn driven(steps: StepsOfStore) -> Process {
    Process::new(steps.callers, steps.own, steps.wake)
}

/// Returns the answer to a request with this time limit, and how long it took by the stopwatch. If
/// the answer was late because the machine stood still, it says nothing, and the request is made
/// again.
pub(crate) async fn in_time<T, F: Future<Output = T>>(limit: Duration, ask: impl Fn() -> F) -> (T, Duration) {
    loop {
        let (start, watch) = (Instant::now(), Stopwatch::start());
        let answer = ask().await;
        let (took, counted) = (start.elapsed(), watch.elapsed());
        if took < limit || counted >= limit {
            return (answer, counted);
        }
    }
}

/// Has a mutex granted, and a second request wait for it, both with this lease. If the first hold
/// ends before the second request comes, because the machine stands still, begins again with
/// another name. All names end with `name`. Returns the token of the hold, and the request that
/// waits.
pub(crate) async fn contended(process: &Process, name: &str, lease: Ttl) -> (FencingToken, Acquire) {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let object = mutex(&format!("{attempt} {name}"));
        let [held, waiter] = [(); 2].map(|()| Acquire { lease, ..ask(&object) });
        let asked = Instant::now();
        let token = granted(process, &held).await;
        match acquire(process, &waiter).await {
            Acquired::Waiting { .. } => return (token, waiter),
            answer => assert!(asked.elapsed() >= lease.get(), "{answer:?} while the mutex is held"),
        }
    }
}

/// Starts a private server, and makes a namespace on it.
pub(crate) fn start(options: RedisOptions) -> (RedisServer, Fixture) {
    let server = RedisServer::start(options).expect("a redis-server");
    let fixture = Fixture::on(&server.url());
    (server, fixture)
}

/// Sends a command to the server of a fixture.
pub(crate) async fn command(fixture: &Fixture, words: &[&str]) {
    let mut raw = fixture.raw().await;
    let mut command = redis::cmd(words[0]);
    let _: redis::Value = command.arg(&words[1..]).query_async(&mut raw).await.expect("an answer");
}
