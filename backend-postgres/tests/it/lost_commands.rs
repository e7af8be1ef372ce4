//! Loses every command of every call that acquires or waits once, and checks that nothing is left
//! behind.

#![allow(clippy::disallowed_methods, reason = "a test owns its runtime")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_campaign::lost_commands::{LEASE, Losses, TestedServer, lose_every_command};
use stanchion_core::{Kind, MutexMode, Store, Ticket};
use stanchion_postgres::PostgresStore;
use stanchion_testbed::servers;

const WITNESS_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_millis(1_000);

/// A namespace of its own on the shared server.
struct Namespace {
    name: String,
    mode: MutexMode,
}

#[async_trait]
impl TestedServer for Namespace {
    fn server(&self) -> String {
        servers::postgres().expect("a postgres").url().to_owned()
    }

    async fn connect(&self, url: &str) -> Arc<dyn Store> {
        // This timeout is for requests under a fault. To connect, a busy machine may take longer.
        loop {
            let builder = PostgresStore::builder(url).expect("a URL").namespace(&self.name);
            let builder = builder.mutex(self.mode).session_ttl(LEASE).request_timeout(REQUEST_TIMEOUT);
            match builder.connect().await {
                Err(error) if error.is_retryable() => {}
                connected => return Arc::new(connected.expect("a store")),
            }
        }
    }

    async fn witness(&self) -> Arc<dyn Store> {
        let builder = PostgresStore::builder(&self.server()).expect("a URL").namespace(&self.name);
        let builder = builder.mutex(self.mode).session_ttl(LEASE).request_timeout(WITNESS_TIMEOUT);
        Arc::new(builder.connect().await.expect("a store"))
    }

    fn request_timeout(&self) -> Duration {
        REQUEST_TIMEOUT
    }

    fn kinds(&self) -> &[Kind] {
        match self.mode {
            MutexMode::Session => &[Kind::Mutex],
            _ => &[Kind::Mutex, Kind::Semaphore, Kind::WaitGroup, Kind::Limiter],
        }
    }
}

async fn each_command_can_be_lost(mode: MutexMode) {
    let name = format!("t{}", Ticket::random());
    let tested: Arc<dyn TestedServer> = Arc::new(Namespace { name, mode });
    let report = lose_every_command(&tested, Losses::of_environment()).await;
    println!("{report}");
    assert!(report.is_clean(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_c3_c4_s4_c18_each_command_of_each_call_can_be_lost_in_lease_mode() {
    each_command_can_be_lost(MutexMode::Lease).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_c3_c4_c18_each_command_of_each_call_can_be_lost_in_session_mode() {
    each_command_can_be_lost(MutexMode::Session).await;
}
