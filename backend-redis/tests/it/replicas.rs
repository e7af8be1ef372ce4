//! Grants that wait for replicas.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::time::Duration;

use crate::harness::*;
use stanchion_core::engine::steps::Attach;
use stanchion_core::{ErrorKind, MutexOptions, Store, Ticket, Ttl};
use stanchion_redis::RedisStore;
use stanchion_testbed::servers::{RedisOptions, RedisServer};
use tokio::time::{Instant, timeout};

/// A primary with a replica in step.
fn pair() -> (RedisServer, RedisServer) {
    let primary = RedisServer::start(RedisOptions::default()).unwrap();
    let follow = format!("replicaof 127.0.0.1 {}", primary.port());
    let replica = RedisServer::start(RedisOptions::default().config(follow)).unwrap();
    // What is written before the replica has come is no news to it.
    let came = || primary.command(&["INFO", "replication"]).unwrap().contains("state=online").then_some(());
    stanchion_testbed::servers::wait_until(Duration::from_secs(10), came).unwrap();
    primary.command(&["SET", "first", "write"]).unwrap();
    let followed = || primary.is_followed().then_some(());
    stanchion_testbed::servers::wait_until(Duration::from_secs(10), followed).unwrap();
    (primary, replica)
}

fn url(primary: &RedisServer, replicas: u32) -> String {
    format!("{}?replicas={replicas}&request_timeout_ms=1500", primary.url())
}

#[tokio::test]
async fn a_grant_waits_for_its_replicas() {
    let (primary, replica) = pair();
    let process = driven(RedisStore::builder(&url(&primary, 1)).unwrap().steps().await.unwrap());
    let requests: Vec<_> = (0..50).map(|index| ask(&mutex(&format!("m{index}")))).collect();
    all(process.callers.acquire(&requests).await);
    // Without another moment to wait.
    let keys = replica.command(&["KEYS", "*:m:*"]).unwrap();
    assert_eq!(keys.lines().filter(|line| line.starts_with('{')).count(), 50);
    granted(&process, &requests[0]).await;
}

#[tokio::test]
async fn too_few_replicas_undo_the_grant() {
    let (primary, replica) = pair();
    let process = driven(RedisStore::builder(&url(&primary, 2)).unwrap().steps().await.unwrap());
    let request = ask(&mutex("m"));
    let start = Instant::now();
    let error = process.callers.acquire(std::slice::from_ref(&request)).await.remove(0).unwrap_err();
    assert!(start.elapsed() < Duration::from_millis(1_500), "{:?}", start.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("1 of 2 replicas"), "{error}");
    let inspection = process.callers.inspect(&mutex("m")).await.unwrap();
    assert!(inspection.holders.is_empty() && inspection.waiters == 0, "{inspection:?}");
    // The same ticket is granted once there are enough.
    let process = driven(RedisStore::builder(&url(&primary, 1)).unwrap().steps().await.unwrap());
    granted(&process, &request).await;
    replica.kill().unwrap();
    let error = process.callers.acquire(&[ask(&mutex("n"))]).await.remove(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let attach = Attach {
        object: mutex("m"),
        from: request.ticket,
        to: Ticket::random(),
        lease: Ttl::DEFAULT,
        label: None,
    };
    let error = process.callers.attach(&attach).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    // Renewals and releases do not wait.
    assert_eq!(release(&process, &request).await, stanchion_core::engine::steps::Kept::No);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_without_a_limit_rides_it_out() {
    let (primary, replica) = pair();
    let store = RedisStore::connect(&url(&primary, 1)).await.unwrap();
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    replica.pause().unwrap();
    let error = mutex.try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let locking = async {
        let guard = mutex.lock().await.unwrap();
        guard.release().await.unwrap();
    };
    let (locked, resumed) = tokio::join!(timeout(Duration::from_secs(10), locking), async {
        tokio::time::timeout(Duration::from_secs(1), std::future::pending::<()>()).await.unwrap_err();
        replica.resume()
    });
    locked.unwrap();
    resumed.unwrap();
}
