//! Namespaces on deployments that all cases of the test program share.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "a thread of its own flushes in real time")]

use std::sync::{Arc, LazyLock, OnceLock};
use std::thread;
use std::time::Duration;

use crate::common::{PATIENT, connected};
use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use stanchion_conformance::Harness;
use stanchion_conformance::faulty::{self, Faults};
use stanchion_core::{Store, Ticket};
use stanchion_redis::{RedisBuilder, RedisStore};
use stanchion_testbed::faults::Clock;
use stanchion_testbed::servers::{self, RedisCluster, RedisOptions, RedisSentinel, RedisServer};

/// The URL of the deployment, and the URLs of its primaries for a plain client.
struct Deployment {
    url: String,
    primaries: Vec<String>,
}

static SERVER: LazyLock<Deployment> = LazyLock::new(|| {
    let url = servers::redis().expect("a redis-server").url().to_owned();
    Deployment { primaries: vec![url.clone()], url }
});

static TLS: LazyLock<Deployment> = LazyLock::new(|| {
    let server =
        RedisServer::start(RedisOptions::default().tls(true).password("pw")).expect("a redis-server");
    let server = Box::leak(Box::new(server));
    let socket = format!("redis+unix://{}?pass=pw", server.dir().join("redis.sock").display());
    let url = server.url().replace(":pw@", "stanchion:pw@");
    thread::spawn({
        let client = redis::Client::open(socket.as_str()).expect("a URL");
        let mut raw = client.get_connection().expect("a connection");
        let mut rule = least_rights("stanchion", "pw", "t*");
        rule.extend(rights_of_filters());
        rule.extend(rights_of_listings());
        redis::cmd("ACL").arg(rule).exec(&mut raw).expect("a user");
        move || {
            // This goes on until the test program ends.
            while redis::cmd("SCRIPT").arg("FLUSH").exec(&mut raw).is_ok() {
                thread::sleep(Duration::from_millis(50));
            }
        }
    });
    Deployment { url, primaries: vec![socket] }
});

/// What the manual says can be missing without an error.
const DISPENSABLE: [&str; 3] = ["+info", "+rpush", "+blpop"];

static BARE: LazyLock<Deployment> = LazyLock::new(|| {
    let server = RedisServer::start(RedisOptions::default()).expect("a redis-server");
    let server = Box::leak(Box::new(server));
    let client = redis::Client::open(server.url()).expect("a URL");
    let mut rule = least_rights("bare", "pw", "t*");
    rule.retain(|word| !DISPENSABLE.contains(&word.as_str()));
    rule.extend(rights_of_filters());
    rule.extend(rights_of_listings());
    let mut raw = client.get_connection().expect("a connection");
    redis::cmd("ACL").arg(rule).exec(&mut raw).expect("a user");
    Deployment { url: server.url().replace("://", "://bare:pw@"), primaries: vec![server.url()] }
});

/// Returns the rule in the manual, word for word.
pub(crate) fn least_rights(user: &str, password: &str, namespace: &str) -> Vec<String> {
    let manual = include_str!("../../../README.md");
    let rule = manual.lines().find_map(|line| line.strip_prefix("ACL ")).expect("a rule in the manual");
    let words = rule
        .split_whitespace()
        .map(|word| word.replace("USER", user).replace("PASSWORD", password).replace("NAMESPACE", namespace));
    let mut words: Vec<_> = words.collect();
    // `SETUSER` contains the placeholder `USER`, too.
    words[0] = "SETUSER".to_owned();
    words
}

/// Returns the further rights of the manual for Bloom filters; none if the feature is off.
pub(crate) fn rights_of_filters() -> Vec<String> {
    let manual = include_str!("../../../README.md");
    let rule = manual.lines().filter(|line| line.starts_with("ACL SETUSER")).nth(1).expect("a second rule");
    let granted = rule.split(' ').filter(|word| cfg!(feature = "bloom") && word.starts_with('+'));
    granted.map(str::to_owned).collect()
}

/// Returns the further rights of the manual for `Store::list`.
pub(crate) fn rights_of_listings() -> Vec<String> {
    let manual = include_str!("../../../README.md");
    let rule = manual.lines().filter(|line| line.starts_with("ACL SETUSER")).nth(2).expect("a third rule");
    rule.split(' ').filter(|word| word.starts_with('+')).map(str::to_owned).collect()
}

static SENTINEL: LazyLock<Deployment> = LazyLock::new(|| {
    let sentinel = RedisSentinel::start(RedisOptions::default().password("pw")).expect("sentinels");
    let sentinel = Box::leak(Box::new(sentinel));
    Deployment { url: sentinel.url(), primaries: vec![sentinel.servers()[0].url()] }
});

static CLUSTER: LazyLock<Deployment> = LazyLock::new(|| {
    let cluster = RedisCluster::start(RedisOptions::default().password("pw")).expect("a cluster");
    let cluster = Box::leak(Box::new(cluster));
    Deployment { url: cluster.url(), primaries: cluster.nodes()[..3].iter().map(|node| node.url()).collect() }
});

/// A server for idle names alone, whose clock a case moves forward.
struct Clocked {
    deployment: Deployment,
    clock: Clock,
    _server: RedisServer,
}

impl Clocked {
    fn start() -> Self {
        let clock = Clock::new().expect("a clock");
        let server = RedisServer::start(RedisOptions::default().clock(&clock)).expect("a redis-server");
        let url = server.url();
        Self { deployment: Deployment { primaries: vec![url.clone()], url }, clock, _server: server }
    }
}

/// A namespace of its own on the deployment.
pub(crate) struct DeploymentFixture {
    deployment: &'static Deployment,
    namespace: String,
    /// The server of idle names, if they are to be on one whose clock can be moved.
    clocked: Option<OnceLock<Clocked>>,
}

impl DeploymentFixture {
    /// Makes a namespace on one server.
    pub(crate) fn server() -> Self {
        Self { clocked: Some(OnceLock::new()), ..Self::on(&SERVER) }
    }

    /// Makes a namespace on a server with TLS, for a user with the least rights, while a thread
    /// flushes the scripts of the server every 50 ms.
    pub(crate) fn tls() -> Self {
        Self::on(&TLS)
    }

    /// Makes a namespace on a server, for a user without any right that can be missing.
    pub(crate) fn bare() -> Self {
        Self::on(&BARE)
    }

    /// Makes a namespace on a primary that sentinels watch. All of them require a password.
    pub(crate) fn sentinel() -> Self {
        Self::on(&SENTINEL)
    }

    /// Makes a namespace on a cluster that requires a password.
    pub(crate) fn cluster() -> Self {
        Self::on(&CLUSTER)
    }

    /// Makes a namespace on one server, which clients reach by the URL `through`.
    pub(crate) fn through(through: String, server: &str) -> Self {
        Self::on(Box::leak(Box::new(Deployment { url: through, primaries: vec![server.to_owned()] })))
    }

    fn on(deployment: &'static Deployment) -> Self {
        Self { deployment, namespace: format!("t{}", Ticket::random()), clocked: None }
    }

    fn builder(&self) -> RedisBuilder {
        self.builder_on(self.deployment)
    }

    fn builder_on(&self, deployment: &Deployment) -> RedisBuilder {
        let builder = RedisStore::builder(&deployment.url).expect("a URL");
        builder.namespace(&self.namespace).request_timeout(PATIENT)
    }

    /// Returns the deployment of idle names.
    fn forgetful(&self) -> &Deployment {
        let clocked = self.clocked.as_ref().map(|server| server.get_or_init(Clocked::start));
        clocked.map_or(self.deployment, |clocked| &clocked.deployment)
    }

    async fn primaries(deployment: &Deployment) -> Vec<MultiplexedConnection> {
        let mut primaries = Vec::new();
        for url in &deployment.primaries {
            let client = redis::Client::open(url.as_str()).expect("a URL");
            primaries.push(connected(&client).await);
        }
        primaries
    }

    /// Returns the keys of the namespace on a server except its layout.
    async fn keys(&self, raw: &mut MultiplexedConnection) -> Vec<Vec<u8>> {
        let (mut cursor, mut keys) = (0_u64, Vec::new());
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(format!("{{{}/*", self.namespace)).arg("COUNT").arg(1_000);
            let (next, page): (u64, Vec<Vec<u8>>) = scan.query_async(raw).await.expect("a page of keys");
            keys.extend(page.into_iter().filter(|key| !key.ends_with(b"}:layout")));
            cursor = next;
            if cursor == 0 {
                return keys;
            }
        }
    }
}

#[async_trait]
impl Harness for DeploymentFixture {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.builder().connect().await.expect("a store"))
    }

    async fn forgetful_store(&self, retention: Duration) -> Option<Arc<dyn Store>> {
        // A second is the minimum.
        let retention = retention.max(Duration::from_secs(1));
        let store = self.builder_on(self.forgetful()).retention(retention).connect().await;
        Some(Arc::new(store.expect("a store")))
    }

    async fn pass(&self, time: Duration) -> bool {
        let clocked = self.clocked.as_ref().and_then(OnceLock::get);
        clocked.is_some_and(|clocked| clocked.clock.forward(time).is_ok())
    }

    async fn faulty_store(&self, faults: &Arc<Faults>) -> Option<Arc<dyn Store>> {
        let faults = Arc::clone(faults);
        let builder = self.builder().with_steps(move |steps| faulty::wrap(steps, &faults));
        Some(Arc::new(builder.connect().await.expect("a store")))
    }

    async fn leftover(&self) -> Option<usize> {
        let mut leftover = 0;
        for mut primary in Self::primaries(self.forgetful()).await {
            let keys = self.keys(&mut primary).await;
            // The marks of the stripes stay for good.
            leftover += keys.iter().filter(|key| !key.ends_with(b"}:mark")).count();
        }
        Some(leftover)
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn lose_data(&self) -> bool {
        for mut primary in Self::primaries(self.deployment).await {
            for key in self.keys(&mut primary).await {
                let _: u64 =
                    redis::cmd("UNLINK").arg(key).query_async(&mut primary).await.expect("it is gone");
            }
        }
        true
    }
}
