//! Every command of every call that acquires or waits is lost once, and nothing is left behind.

#![allow(clippy::disallowed_methods, reason = "a test owns its runtime")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_campaign::lost_commands::{Losses, TestedServer, lose_every_command};
use stanchion_core::{Kind, Store, Ticket};
use stanchion_redis::RedisStore;
use stanchion_testbed::servers;

const WITNESS: Duration = Duration::from_secs(10);
const REQUEST: Duration = Duration::from_millis(500);

/// A namespace of its own on the shared server.
struct Namespace(String);

#[async_trait]
impl TestedServer for Namespace {
    fn server(&self) -> String {
        servers::redis().expect("a redis-server").url().to_owned()
    }

    async fn connect(&self, url: &str) -> Arc<dyn Store> {
        // The time limit is meant for requests under a fault. Connecting may take longer on a busy
        // machine.
        loop {
            let builder = RedisStore::builder(url).expect("a URL").namespace(&self.0);
            match builder.request_timeout(REQUEST).connect().await {
                Err(error) if error.is_retryable() => {}
                connected => return Arc::new(connected.expect("a store")),
            }
        }
    }

    async fn witness(&self) -> Arc<dyn Store> {
        let builder = RedisStore::builder(&self.server()).expect("a URL").namespace(&self.0);
        Arc::new(builder.request_timeout(WITNESS).connect().await.expect("a store"))
    }

    fn request_timeout(&self) -> Duration {
        REQUEST
    }

    fn kinds(&self) -> &[Kind] {
        &[Kind::Mutex, Kind::Semaphore, Kind::WaitGroup, Kind::Limiter]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_c3_c4_s4_c18_each_command_of_each_call_can_be_lost() {
    let tested: Arc<dyn TestedServer> = Arc::new(Namespace(format!("t{}", Ticket::random())));
    let report = lose_every_command(&tested, Losses::of_environment()).await;
    println!("{report}");
    assert!(report.is_clean(), "{report}");
}
