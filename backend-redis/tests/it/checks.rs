//! What is checked of a server when a store connects, and of each later connection (C22).

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::time::Duration;

use crate::common::*;
use stanchion_conformance::support::{definite, eventually};
use stanchion_core::{
    ErrorKind, LimiterOptions, MutexOptions, Quota, SemaphoreOptions, Store, WaitGroupOptions,
};
use stanchion_redis::{RedisBuilder, RedisStore};
use stanchion_testbed::faults::Proxy;
use stanchion_testbed::servers::{RedisOptions, RedisServer};
use tokio::time::{Instant, sleep};

#[tokio::test]
async fn c22_holds_survive_a_restart_only_if_each_write_is_on_disk() {
    let (_server, fixture) = start(RedisOptions::default().append_only(true).config("appendfsync everysec"));
    assert_eq!(
        fixture.builder().request_timeout(PATIENT).steps().await.unwrap().capabilities.survives_restart,
        Some(false)
    );
    let (server, fixture) = start(RedisOptions::default().append_only(true));
    command(&fixture, &["ACL", "SETUSER", "me", "on", ">pw", "~*", "+@all", "-config"]).await;
    let url = format!("redis://me:pw@127.0.0.1:{}/", server.port());
    let steps = RedisStore::builder(&url).unwrap().request_timeout(PATIENT).steps().await.unwrap();
    assert_eq!(steps.capabilities.survives_restart, None);
}

#[tokio::test]
async fn c22_a_namespace_that_is_there_can_be_opened_without_memory() {
    let (_server, fixture) = start(RedisOptions::default());
    fixture.process().await;
    command(&fixture, &["CONFIG", "SET", "maxmemory", "1"]).await;
    fixture.builder().request_timeout(PATIENT).steps().await.unwrap();
    let refused = Fixture::on(&fixture.url).builder().request_timeout(PATIENT).steps().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
}

#[tokio::test]
async fn c22_what_may_not_be_looked_at_is_not_refused() {
    let (server, fixture) = start(RedisOptions::default());
    let url = format!("redis://me:pw@127.0.0.1:{}/", server.port());
    command(&fixture, &["ACL", "SETUSER", "me", "on", ">pw", "~*", "+@all", "-@admin", "-@dangerous"]).await;
    let steps = RedisStore::builder(&url).unwrap().request_timeout(PATIENT).steps().await.unwrap();
    assert_eq!(steps.capabilities.survives_restart, None);
    let process = driven(steps);
    let (request, waiter) = (ask(&mutex("m")), ask(&mutex("m")));
    granted(&process, &request).await;
    waits(&process, &waiter).await;
    release(&process, &request).await;
    assert_eq!(process.hint().await, waiter.ticket);
}

#[tokio::test]
async fn c22_a_server_that_evicts_is_refused() {
    let (_server, fixture) = start(RedisOptions::default());
    fixture.process().await;
    command(&fixture, &["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]).await;
    fixture.process().await;
    command(&fixture, &["CONFIG", "SET", "maxmemory", "100mb"]).await;
    let error = fixture.builder().request_timeout(PATIENT).steps().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsafeStore);
    assert!(error.to_string().contains("volatile-lru"), "{error}");
}

#[tokio::test]
async fn c22_a_replica_is_refused_and_a_step_on_one_changes_nothing() {
    let (primary, _fixture) = start(RedisOptions::default());
    let (_server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    command(&fixture, &["REPLICAOF", "127.0.0.1", &primary.port().to_string()]).await;
    assert_eq!(
        process.callers.acquire(&[ask(&mutex("m"))]).await.remove(0).unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        // Until the replica is in step with its primary, it refuses even the question.
        let error = fixture.builder().request_timeout(PATIENT).steps().await.unwrap_err();
        if error.kind() == ErrorKind::UnsafeStore {
            break;
        }
        assert!(error.kind() == ErrorKind::Unavailable && Instant::now() < end, "{error:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn c22_another_layout_is_refused_and_left_alone() {
    let fixture = Fixture::shared();
    fixture.process().await;
    fixture.process().await;
    let key = format!("{{{}/0}}:layout", fixture.namespace);
    command(&fixture, &["SET", &key, "7"]).await;
    let error = fixture.builder().request_timeout(PATIENT).steps().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConfigMismatch);
    assert!(error.to_string().contains("layout 7") && error.to_string().contains("layout 6"), "{error}");
    let mut raw = fixture.raw().await;
    let layout: String = redis::cmd("GET").arg(&key).query_async(&mut raw).await.unwrap();
    assert_eq!(layout, "7");
}

/// Ends all connections, so that each client makes another.
fn end_connections(server: &RedisServer) {
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
}

/// Gives the server a limit of memory, and this policy for what it does there.
fn evict(server: &RedisServer, policy: &str) {
    for (setting, value) in [("maxmemory", "100mb"), ("maxmemory-policy", policy)] {
        server.command(&["CONFIG", "SET", setting, value]).unwrap();
    }
}

/// Locks until it is refused with this kind.
async fn refused_with(store: &RedisStore, kind: ErrorKind) {
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    let refused = || async { mutex.try_lock().await.is_err_and(|error| error.kind() == kind) };
    eventually(Duration::from_secs(10), "the refusal", refused).await;
}

/// Locks once the server is as it was.
async fn serves(store: &RedisStore) {
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    eventually(Duration::from_secs(10), "a lock", || async { mutex.try_lock().await.is_ok() }).await;
}

#[tokio::test]
async fn c22_a_new_connection_to_a_server_that_evicts_now_is_refused() {
    let (server, fixture) = start(RedisOptions::default());
    let store = fixture.builder().request_timeout(PATIENT).connect().await.unwrap();
    serves(&store).await;
    evict(&server, "allkeys-lru");
    end_connections(&server);
    refused_with(&store, ErrorKind::UnsafeStore).await;
    evict(&server, "noeviction");
    serves(&store).await;
}

/// The engine's connection is still open, and serves while no other can be made; but not in place
/// of one that was refused for good.
#[tokio::test]
async fn c22_an_open_connection_hides_no_refusal_of_a_new_one() {
    let (server, fixture) = start(RedisOptions::default());
    let store = fixture.builder().request_timeout(PATIENT).connect().await.unwrap();
    serves(&store).await;
    evict(&server, "allkeys-lru");
    let clients = server.command(&["CLIENT", "LIST", "TYPE", "normal"]).unwrap();
    let ids =
        clients.lines().filter_map(|line| line.strip_prefix("id=")?.split(' ').next()?.parse::<u64>().ok());
    let callers = ids.min().unwrap().to_string();
    server.command(&["CLIENT", "KILL", "ID", &callers]).unwrap();
    refused_with(&store, ErrorKind::UnsafeStore).await;
    evict(&server, "noeviction");
    serves(&store).await;
}

#[tokio::test]
async fn c22_a_new_connection_to_a_server_that_is_a_replica_now_waits_for_a_primary() {
    let (primary, _) = start(RedisOptions::default());
    let (server, fixture) = start(RedisOptions::default());
    let store = fixture.builder().request_timeout(PATIENT).connect().await.unwrap();
    serves(&store).await;
    server.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]).unwrap();
    end_connections(&server);
    refused_with(&store, ErrorKind::Unavailable).await;
    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    serves(&store).await;
}

#[tokio::test]
async fn c22_a_new_connection_sees_another_layout_and_notes_a_lost_one() {
    let (server, fixture) = start(RedisOptions::default());
    let store = fixture.builder().request_timeout(PATIENT).connect().await.unwrap();
    let layout = format!("{{{}/0}}:layout", fixture.namespace);
    server.command(&["SET", &layout, "99"]).unwrap();
    end_connections(&server);
    refused_with(&store, ErrorKind::ConfigMismatch).await;
    server.command(&["DEL", &layout]).unwrap();
    serves(&store).await;
    assert_eq!(server.command(&["EXISTS", &layout]).unwrap(), ":1\r\n");
}

#[tokio::test]
async fn c22_a_store_for_limiters_alone_can_accept_eviction() {
    let (server, fixture) = start(RedisOptions::default());
    for (setting, value) in [("maxmemory", "100mb"), ("maxmemory-policy", "allkeys-lru")] {
        server.command(&["CONFIG", "SET", setting, value]).unwrap();
    }
    assert_eq!(
        fixture.builder().request_timeout(PATIENT).connect().await.unwrap_err().kind(),
        ErrorKind::UnsafeStore
    );
    let store = fixture.builder().request_timeout(PATIENT).accept_eviction(true).connect().await.unwrap();
    let limiter = store.limiter("l", LimiterOptions::new(Quota::per_second(5).burst(5))).unwrap();
    assert!(limiter.allow().await.unwrap().allowed);
    end_connections(&server);
    eventually(Duration::from_secs(10), "a decision", || async { limiter.allow().await.is_ok() }).await;
    let offered = store.capabilities();
    assert!(offered.limiters && !offered.wait_groups && !offered.bloom_filters);
    let refused = [
        store.mutex("m", MutexOptions::default()).map(drop),
        store.semaphore("s", SemaphoreOptions::new(2)).map(drop),
        store.wait_group("g", WaitGroupOptions::default()).map(drop),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    }
}

#[tokio::test]
async fn c18_a_login_may_take_as_long_as_connect_timeout_says() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let proxy = Proxy::to(&server.url()).unwrap();
    let login = Duration::from_secs(3);
    proxy.slow_logins(login);
    let url = proxy.url(&server.url());
    let builder = || RedisBuilder::new(&url).unwrap().request_timeout(Duration::from_secs(1));
    assert_eq!(builder().connect().await.unwrap_err().kind(), ErrorKind::Unavailable);
    let store = builder().connect_timeout(login * 10).connect().await.unwrap();
    definite(|| store.ping()).await.unwrap();
    let url = format!("{url}?request_timeout_ms=1000&connect_timeout_ms=30000");
    RedisStore::connect(&url).await.unwrap();
}
