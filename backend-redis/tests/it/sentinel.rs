//! A primary that sentinels announce: failovers, promotions, and faults of the sentinels.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use stanchion_conformance::stopwatch::{Stopwatch, timeout};
use stanchion_conformance::support::{AT_ONCE, definite, eventually, unique};
use stanchion_core::{ErrorKind, Mutex, MutexOptions, Store};
use stanchion_redis::RedisStore;
use stanchion_testbed::servers::{RedisOptions, RedisSentinel, RedisServer};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Options for sentinels that replace a primary that has been silent for a second.
fn failing_over() -> RedisOptions {
    RedisOptions::default().failover_after(Duration::from_secs(1))
}

fn start(options: RedisOptions) -> (Arc<RedisSentinel>, Fixture) {
    let sentinel = Arc::new(RedisSentinel::start(options).unwrap());
    let fixture = Fixture::on(&sentinel.url());
    (sentinel, fixture)
}

/// Starts a stopwatch when the sentinels announce the expected server. It asks from a thread of its
/// own, because it blocks.
async fn announced(sentinel: &Arc<RedisSentinel>, expected: usize) -> Stopwatch {
    let sentinel = Arc::clone(sentinel);
    let announced = tokio::task::spawn_blocking(move || {
        while sentinel.primary().unwrap() != expected {}
        Stopwatch::start()
    });
    timeout(Duration::from_secs(30), announced).await.expect("a failover").unwrap()
}

/// Waits until the replica has all writes.
async fn followed(primary: &RedisServer) {
    let followed = async {
        while !primary.is_followed() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), followed).await.expect("a replica that follows");
}

async fn held_with_waiters(
    store: &Arc<dyn Store>,
) -> (Arc<dyn Mutex>, stanchion_core::MutexGuard, JoinSet<()>) {
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    let guard = mutex.lock().await.unwrap();
    let mut waiters = JoinSet::new();
    for _ in 0..10 {
        let mutex = Arc::clone(&mutex);
        waiters.spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() });
    }
    while definite(|| mutex.inspect()).await.unwrap().waiters < 10 {
        sleep(Duration::from_millis(10)).await;
    }
    (mutex, guard, waiters)
}

/// Checks that clients work within a second of the announcement, and that the waiters proceed.
async fn works_again(
    mutex: &dyn Mutex,
    guard: stanchion_core::MutexGuard,
    waiters: JoinSet<()>,
    announced: Stopwatch,
) {
    while mutex.inspect().await.is_err() {
        sleep(Duration::from_millis(10)).await;
    }
    let took = announced.elapsed();
    println!("clients worked {took:?} after the announcement");
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(guard.is_held());
    guard.release().await.unwrap();
    timeout(Duration::from_secs(5), waiters.join_all()).await.expect("the waiters proceed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c18_clients_follow_a_failover() {
    let (sentinel, fixture) = start(failing_over());
    let store: Arc<dyn Store> = Arc::new(definite(|| fixture.builder().connect()).await.unwrap());
    let (mutex, guard, waiters) = held_with_waiters(&store).await;
    followed(&sentinel.servers()[0]).await;
    sentinel.servers()[0].kill().unwrap();
    let announced = announced(&sentinel, 1).await;
    works_again(mutex.as_ref(), guard, waiters, announced).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c18_clients_leave_a_primary_that_is_demoted() {
    let (sentinel, fixture) = start(RedisOptions::default());
    let store: Arc<dyn Store> = Arc::new(definite(|| fixture.builder().connect()).await.unwrap());
    let (mutex, guard, waiters) = held_with_waiters(&store).await;
    sentinel.promote().unwrap();
    let announced = announced(&sentinel, 1).await;
    works_again(mutex.as_ref(), guard, waiters, announced).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c18_clients_leave_a_primary_that_hangs() {
    let (sentinel, fixture) = start(failing_over());
    let connect = || fixture.builder().request_timeout(Duration::from_millis(500)).connect();
    let store: Arc<dyn Store> = Arc::new(definite(connect).await.unwrap());
    let (mutex, guard, waiters) = held_with_waiters(&store).await;
    followed(&sentinel.servers()[0]).await;
    sentinel.servers()[0].pause().unwrap();
    let announced = announced(&sentinel, 1).await;
    works_again(mutex.as_ref(), guard, waiters, announced).await;
    sentinel.servers()[0].resume().unwrap();
}

/// The sentinels lose a primary that goes on serving its clients. What it grants from then on is
/// known to nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c18_clients_leave_a_primary_that_only_they_can_reach() {
    let (sentinel, fixture) = start(failing_over());
    let store = definite(|| fixture.builder().connect()).await.unwrap();
    let old = &sentinel.servers()[0];
    let mut raw = connected(&redis::Client::open(old.url()).unwrap()).await;
    followed(old).await;
    // Whoever connects to it anew is refused from now on.
    let mut refuse = redis::cmd("CONFIG");
    let () = refuse.arg(&["SET", "requirepass", "other"]).query_async(&mut raw).await.unwrap();
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut raw).await.unwrap();
    for line in list.lines().filter(|line| line.contains(" name=sentinel-")) {
        let id = line.split(' ').next().and_then(|id| id.strip_prefix("id=")).unwrap();
        let () = redis::cmd("CLIENT").arg(&["KILL", "ID", id]).query_async(&mut raw).await.unwrap();
    }
    announced(&sentinel, 1).await;
    let is_at_the_new_one = || async {
        let name = unique("m");
        let mutex = store.mutex(&name, MutexOptions::default()).unwrap();
        let _guard = definite(|| mutex.try_lock()).await.unwrap().unwrap();
        sentinel.servers()[1].command(&["KEYS", &format!("*:m:{name}")]).unwrap().contains(&name)
    };
    eventually(Duration::from_secs(1), "the client asks the new primary", is_at_the_new_one).await;
}

#[tokio::test]
async fn c18_one_sentinel_is_enough() {
    let (sentinel, fixture) = start(RedisOptions::default().password("p w"));
    sentinel.sentinels()[0].kill().unwrap();
    sentinel.sentinels()[1].pause().unwrap();
    // A client that waited for the silent sentinel would wait for half of this time.
    let patient = fixture.builder().request_timeout(Duration::from_secs(30));
    let watch = Stopwatch::start();
    let process = driven(patient.steps().await.unwrap());
    assert!(watch.elapsed() < AT_ONCE, "{:?}", watch.elapsed());
    granted(&process, &ask(&mutex("m"))).await;
    sentinel.sentinels()[2].kill().unwrap();
    sentinel.sentinels()[1].kill().unwrap();
    // A client that is connected needs no sentinel.
    granted(&process, &ask(&mutex("n"))).await;
    assert_eq!(fixture.builder().steps().await.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn c21_wrong_credentials_and_services_are_told() {
    let (sentinel, _) = start(RedisOptions::default().password("s3cret"));
    let url = sentinel.url();
    for (wrong, kind) in [
        (url.replace("sentinel_password=s3cret", "sentinel_password=wr0ng"), ErrorKind::Unauthorized),
        (url.replace("?sentinel_password=s3cret", ""), ErrorKind::Unauthorized),
        (url.replace("//:s3cret@", "//:wr0ng@"), ErrorKind::Unauthorized),
        (url.replace("/test?", "/other?"), ErrorKind::Unavailable),
    ] {
        // A busy machine takes its time for a login.
        let builder = RedisStore::builder(&wrong).unwrap().request_timeout(Duration::from_secs(10));
        let error = builder.connect().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
}
