//! The conformance suite on Redis.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use stanchion_conformance::gaps::GAPS;
use stanchion_conformance::suite::Case;
use stanchion_conformance::{Harness, servers, suite};
use stanchion_core::{Store, Ticket};
use stanchion_redis::{RedisBuilder, RedisStore};

/// A namespace of its own on the server that all tests of this process share.
struct RedisHarness {
    url: &'static str,
    namespace: String,
}

impl RedisHarness {
    fn new() -> Self {
        let server = servers::redis().expect("a redis-server");
        Self { url: server.url(), namespace: format!("t{}", Ticket::random()) }
    }

    fn builder(&self) -> RedisBuilder {
        RedisStore::builder(self.url).expect("a URL").namespace(&self.namespace)
    }

    async fn raw(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.url).expect("a URL");
        client.get_multiplexed_async_connection().await.expect("a connection")
    }

    /// The keys of the namespace but for its layout.
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
impl Harness for RedisHarness {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.builder().connect().await.expect("a store"))
    }

    async fn forgetful_store(&self, retention: Duration) -> Option<Arc<dyn Store>> {
        // A second is the shortest there is.
        let retention = retention.max(Duration::from_secs(1));
        let store = self.builder().retention(retention, retention).connect().await;
        Some(Arc::new(store.expect("a store")))
    }

    async fn leftover(&self) -> Option<usize> {
        let mut raw = self.raw().await;
        Some(self.keys(&mut raw).await.len())
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn lose_data(&self) -> bool {
        let mut raw = self.raw().await;
        let keys = self.keys(&mut raw).await;
        if !keys.is_empty() {
            let _: u64 =
                redis::cmd("UNLINK").arg(keys).query_async(&mut raw).await.expect("the keys are gone");
        }
        true
    }

    fn gap(&self, case: &Case) -> Option<String> {
        case.gap_in(GAPS, "redis")
    }
}

suite!(RedisHarness::new());
