//! Connecting without a runtime, and callers whose clock is paused.

#![cfg(all(feature = "memory", feature = "redis", feature = "postgres"))]

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stanchion::{MutexOptions, Store, connect};
use stanchion_conformance::support::{definite, drive_bare, on_bare_thread, unique};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer, wait_until};

/// It outlasts a machine that stands still for seconds.
const TTL: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60 * 60);

/// The servers, and the URLs of the stores on them.
struct Stores {
    _redis: RedisServer,
    _postgres: PostgresServer,
    urls: [String; 3],
}

impl Stores {
    fn start() -> Self {
        let redis = RedisServer::start(RedisOptions::default()).unwrap();
        let postgres = PostgresServer::start(PostgresOptions::default()).unwrap();
        let with = |more: &str| {
            let url = postgres.url();
            format!("{url}{}{more}", if url.contains('?') { '&' } else { '?' })
        };
        let urls =
            [redis.url(), with("mutex=lease&namespace=leases"), with("mutex=session&namespace=sessions")];
        Self { _redis: redis, _postgres: postgres, urls }
    }
}

async fn connected(url: &str) -> Arc<dyn Store> {
    connect(url).await.unwrap_or_else(|error| panic!("{url}: {error}"))
}

#[test]
fn c28_connecting_needs_no_runtime() {
    // A larger future overflows the stack of a small thread, since it is moved a few times.
    assert!(size_of_val(&connect("memory:")) < 4_096);
    let stores = Stores::start();
    for url in stores.urls.iter().map(String::as_str).chain(["memory:"]) {
        let used = async {
            let store = connected(url).await;
            let mutex = store.mutex(&unique("m"), MutexOptions::default()).unwrap();
            let guard = mutex.lock().await.unwrap();
            let short_try = || mutex.lock_for(Duration::from_millis(50));
            assert!(definite(short_try).await.unwrap().is_none());
            guard.release().await.unwrap();
            store.close().await.unwrap();
        };
        on_bare_thread(|| drive_bare(used)).unwrap_or_else(|_| panic!("{url}"));
    }
}

#[tokio::test(start_paused = true)]
async fn c7_the_time_of_a_networked_store_is_real() {
    let stores = Stores::start();
    for url in &stores.urls {
        let store = connected(url).await;
        let other = connected(url).await;
        let name = unique("m");
        let options = MutexOptions::default();
        let options = if url.contains("session") { options } else { options.ttl(TTL) };
        let mutex = store.mutex(&name, options.clone()).unwrap();
        let guard = mutex.lock().await.unwrap();
        tokio::time::advance(LONG).await;
        assert!(guard.is_held(), "{url}: an hour of the caller's clock is none of the store's");
        assert!(guard.deadline().unwrap() < Instant::now() + LONG);
        // Renewed in real time, while the caller's clock stands still.
        let deadline = guard.deadline();
        let renewed = wait_until(TTL * 2, || (guard.deadline() > deadline).then_some(()));
        renewed.unwrap_or_else(|| panic!("{url}: not renewed"));
        assert!(guard.is_held(), "{url}: renewed");
        let other = other.mutex(&name, options).unwrap();
        let began = Cell::new(Instant::now());
        let wait = || {
            began.set(Instant::now());
            other.lock_for(WAIT)
        };
        assert!(definite(wait).await.unwrap().is_none());
        assert!(began.get().elapsed() >= WAIT, "{url}: the limit of a wait is real time");
        guard.release().await.unwrap();
        other.lock().await.unwrap().release().await.unwrap();
        store.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn c7_the_memory_store_follows_the_callers_clock() {
    let store = connected("memory:").await;
    let mutex = store.mutex("m", MutexOptions::default().ttl(LONG).renew(false)).unwrap();
    let guard = mutex.lock().await.unwrap();
    let (began, before) = (Instant::now(), tokio::time::Instant::now());
    let next = mutex.lock().await.unwrap();
    assert!(before.elapsed() >= LONG && began.elapsed() < LONG / 60, "an hour of the paused clock");
    assert!(!guard.is_held() && next.is_held());
}
