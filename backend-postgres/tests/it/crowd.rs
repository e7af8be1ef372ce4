//! Many waiters of one process: few connections, served in order, and no harm to other callers (C15, C16).

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use sqlx::Row;
use stanchion_conformance::EPSILON;
use stanchion_conformance::support::within;
use stanchion_core::{MutexMode, MutexOptions};
use tokio::task::JoinSet;
use tokio::time::sleep;

const WAITERS: u64 = 256;
const MAX_CONNECTIONS: i64 = 6;
const TTL: Duration = Duration::from_secs(10);

async fn many_wait(mode: MutexMode) {
    let server = server();
    let name = |url: &str| format!("{url}?application_name=waiting");
    let (holder, waiting) =
        (store(&server.url(), mode, TTL).await, store(&name(&server.url()), mode, TTL).await);
    let guard = holder.mutex("m", MutexOptions::default()).unwrap().lock().await.unwrap();
    let mutex = waiting.mutex("m", MutexOptions::default()).unwrap();
    let (served, mut waiters) = (Arc::new(Mutex::new(Vec::new())), JoinSet::new());
    for number in 0..WAITERS {
        let (waiter, served) = (Arc::clone(&mutex), Arc::clone(&served));
        waiters.spawn(async move {
            let guard = waiter.lock().await.unwrap();
            served.lock().unwrap().push(number);
            guard.release().await.unwrap();
        });
        while mutex.inspect().await.unwrap().waiters <= number {
            sleep(Duration::from_millis(1)).await;
        }
    }
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waiting'";
    for _ in 0..20 {
        let connections: i64 = row(&server.url(), count).await.get(0);
        assert!(connections <= MAX_CONNECTIONS, "{connections}");
        let other = waiting.mutex("unrelated", MutexOptions::default()).unwrap();
        let free = Duration::from_secs(1) + EPSILON;
        let other = within(free, "nobody else wants it", other.lock()).await.unwrap();
        other.release().await.unwrap();
        sleep(Duration::from_millis(100)).await;
    }
    guard.release().await.unwrap();
    let all = async { while waiters.join_next().await.transpose().unwrap().is_some() {} };
    within(Duration::from_secs(60), "all are served", all).await;
    assert_eq!(*served.lock().unwrap(), (0..WAITERS).collect::<Vec<_>>());
    let connections: i64 = row(&server.url(), count).await.get(0);
    assert!(connections <= MAX_CONNECTIONS, "{connections}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_c16_many_waiters_take_few_connections_in_lease_mode() {
    many_wait(MutexMode::Lease).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_c16_many_waiters_take_few_connections_in_session_mode() {
    many_wait(MutexMode::Session).await;
}
