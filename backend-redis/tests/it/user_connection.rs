//! Stores made from connections of the user.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClient;
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_conformance::support::{EPSILON, POLL_FLOOR, definite, eventually, spawn, within};
use stanchion_core::{
    DecidedBy, ErrorKind, LimiterOptions, Mutex, MutexOptions, OutagePolicy, Quota, Store, Ticket,
};
use stanchion_redis::{RedisBuilder, RedisStore};
use stanchion_testbed::servers::{self, RedisCluster, RedisOptions, RedisServer};

/// Time limit of the user's own connections. By default, the client library gives up after half a
/// second.
const LIMIT: Duration = Duration::from_secs(30);

/// Makes a connection with the default of the client library, RESP2.
async fn manager(url: &str) -> ConnectionManager {
    let config =
        ConnectionManagerConfig::new().set_response_timeout(Some(LIMIT)).set_connection_timeout(Some(LIMIT));
    redis::Client::open(url).unwrap().get_connection_manager_with_config(config).await.unwrap()
}

fn mutex_of(store: &RedisStore) -> Arc<dyn Mutex> {
    store.mutex("m", MutexOptions::default()).unwrap()
}

fn namespaced(builder: RedisBuilder) -> RedisBuilder {
    builder.namespace(format!("t{}", Ticket::random())).request_timeout(PATIENT)
}

/// Checks that a waiter proceeds after the release, by the poll floor at the latest.
async fn hand_off(store: RedisStore) {
    let mutex: Arc<dyn Mutex> = store.mutex("m", MutexOptions::default()).unwrap();
    let guard = mutex.lock().await.unwrap();
    let waiting = Arc::clone(&mutex);
    let waiter = spawn(async move { waiting.lock().await.unwrap() });
    while mutex.inspect().await.unwrap().waiters == 0 {
        tokio::task::yield_now().await;
    }
    guard.release().await.unwrap();
    let guard = within(POLL_FLOOR + EPSILON, "the waiter", waiter.join()).await;
    guard.release().await.unwrap();
    store.close().await.unwrap();
}

/// Checks that the server pushes hints: no poll asks for the next grants.
async fn pushed(process: &Process) {
    let (held, waiter) = (ask(&mutex("pushed")), ask(&mutex("pushed")));
    process.wake.watch(&held.object, true);
    granted(process, &held).await;
    waits(process, &waiter).await;
    release(process, &held).await;
    assert_eq!(process.hint().await, waiter.ticket);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_without_a_wake_client_the_poll_floor_serves() {
    let url = servers::redis().unwrap().url();
    let builder = namespaced(RedisBuilder::from_connection(manager(url).await));
    let store = builder.connect().await.unwrap();
    let able = store.capabilities();
    assert!(!able.wake_ups && able.store == "redis" && able.detach);
    hand_off(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_with_a_wake_client_waiters_are_pushed() {
    let url = servers::redis().unwrap().url();
    let client = redis::Client::open(url).unwrap();
    let connection = connected(&client).await;
    let builder = namespaced(RedisBuilder::from_connection(connection).wake_client(client));
    let store = builder.clone().connect().await.unwrap();
    assert!(store.capabilities().wake_ups);
    hand_off(store).await;
    pushed(&driven(builder.steps().await.unwrap())).await;
}

#[tokio::test]
async fn c22_a_wake_client_of_another_database_is_refused() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let elsewhere = RedisServer::start(RedisOptions::default()).unwrap();
    for url in [format!("{}3", server.url()), elsewhere.url()] {
        let client = redis::Client::open(url).unwrap();
        let builder = RedisBuilder::from_connection(manager(&server.url()).await).wake_client(client);
        let error = builder.request_timeout(PATIENT).connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
    }
}

#[tokio::test]
async fn c3_a_lost_reply_is_unknown_and_a_restart_is_survived() {
    let server = RedisServer::start(RedisOptions::default().append_only(true)).unwrap();
    let builder = RedisBuilder::from_connection(manager(&server.url()).await);
    let builder = builder.request_timeout(Duration::from_millis(300));
    let process = driven(definite(|| builder.clone().steps()).await.unwrap());
    let request = ask(&mutex("m"));
    let token = granted(&process, &request).await;
    server.pause().unwrap();
    let answer = stanchion_core::spi::StepsExt::ask(process.callers.as_ref(), request.clone());
    assert_eq!(answer.await.unwrap_err().kind(), ErrorKind::Unknown);
    server.restart().unwrap();
    let watch = Stopwatch::start();
    loop {
        let answer = stanchion_core::spi::StepsExt::ask(process.callers.as_ref(), request.clone());
        match answer.await {
            Ok(answer) => {
                let expected = stanchion_core::spi::Acquired::Granted { token, limit: 1, epoch: 0 };
                assert_eq!(answer, expected);
                break;
            }
            Err(error) => {
                assert!(error.is_retryable() && watch.elapsed() < Duration::from_secs(5), "{error:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_connection_serves_all_stripes() {
    let cluster = RedisCluster::start(RedisOptions::default()).unwrap();
    let nodes: Vec<_> = cluster.nodes().iter().map(|node| node.url()).collect();
    let client = ClusterClient::builder(nodes.clone()).response_timeout(LIMIT).connection_timeout(LIMIT);
    let client = client.build().unwrap();
    let connection = client.get_async_connection().await.unwrap();
    let builder = namespaced(RedisBuilder::from_cluster_connection(connection.clone()));
    let steps = builder.clone().steps().await.unwrap();
    assert!(!steps.capabilities.wake_ups);
    assert_eq!(steps.capabilities.survives_restart, Some(false));
    let process = driven(steps);
    let requests: Vec<_> = (0..100).map(|index| ask(&mutex(&format!("m{index}")))).collect();
    let steps = process.callers.as_ref() as &dyn stanchion_core::spi::Steps;
    all(steps.acquire(&requests).await);
    let releases: Vec<_> = requests.iter().map(|request| freeing(request, None)).collect();
    all(steps.release(&releases).await);
    hand_off(builder.clone().namespace("poll").connect().await.unwrap()).await;
    let wake = redis::Client::open(nodes[1].as_str()).unwrap();
    let woken = builder.clone().wake_client(wake).namespace("push");
    let store = woken.clone().connect().await.unwrap();
    assert!(store.capabilities().wake_ups);
    hand_off(store).await;
    pushed(&driven(woken.steps().await.unwrap())).await;
    assert_eq!(builder.replicas(1).connect().await.unwrap_err().kind(), ErrorKind::Unsupported);
}

/// A test program with a store in a `static`, and a runtime for each test.
#[test]
fn c28_a_store_over_a_connection_that_is_over_says_so() {
    let (url, cluster) =
        (servers::redis().unwrap().url(), RedisCluster::start(RedisOptions::default()).unwrap());
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let stores = first.block_on(async {
        let client = redis::Client::open(url).unwrap();
        let one = client.get_multiplexed_async_connection().await.unwrap();
        let nodes: Vec<_> = cluster.nodes().iter().map(|node| node.url()).collect();
        let of_cluster = ClusterClient::new(nodes).unwrap().get_async_connection().await.unwrap();
        let builders = [
            RedisBuilder::from_connection(manager(url).await),
            RedisBuilder::from_connection(one),
            RedisBuilder::from_cluster_connection(of_cluster),
        ];
        let mut stores = Vec::new();
        for builder in builders {
            let store = namespaced(builder).connect().await.unwrap();
            mutex_of(&store).lock().await.unwrap().release().await.unwrap();
            stores.push(store);
        }
        stores
    });
    drop(first);
    second.block_on(async {
        // It connects again by the runtime that it is used on.
        within(EPSILON, "a lock", mutex_of(&stores[0]).lock()).await.unwrap().release().await.unwrap();
        for store in &stores[1..] {
            let error = within(EPSILON, "a refusal", mutex_of(store).lock()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Closed, "{error:?}");
            assert!(error.to_string().contains("ConnectionManager"), "{error}");
            // The store is open: a policy decides as in any outage.
            let open = LimiterOptions::new(Quota::per_second(1)).outage(OutagePolicy::FailOpen);
            let decision = store.limiter("l", open).unwrap().allow().await.unwrap();
            assert_eq!(decision.decided_by, DecidedBy::OutagePolicy);
        }
    });
}

/// What callers cannot send any more, the engine sends over a connection of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_release_goes_over_the_engine_s_connection_where_that_of_callers_is_over() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let builder = namespaced(RedisBuilder::from_connection(connection)).wake_client(client);
    let store = builder.namespace("n").connect().await.unwrap();
    let guard = mutex_of(&store).lock().await.unwrap();
    server.kill_clients().unwrap();
    let is_over = || async { mutex_of(&store).inspect().await.is_err_and(|e| e.kind() == ErrorKind::Closed) };
    eventually(EPSILON * 4, "it is over", is_over).await;
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Closed);
    let other = RedisStore::builder(&server.url()).unwrap().namespace("n").connect().await.unwrap();
    within(EPSILON * 8, "it is free", mutex_of(&other).lock()).await.unwrap().release().await.unwrap();
}
