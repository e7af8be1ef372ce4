//! Views of other namespaces, which share the thread and the connections of their store.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests fail by panics")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::PATIENT;
use crate::common::private_server::{ServerFixture, until};
use stanchion_conformance::support::{EPSILON, on_another_runtime, spawn, within};
use stanchion_core::{ErrorKind, Mutex, MutexOptions, Store};
use stanchion_redis::RedisStore;
use stanchion_testbed::faults::{Proxy, Request};
use stanchion_testbed::servers::{RedisCluster, RedisOptions, RedisServer};

/// Timeout for waiters to join or to be served, also on a busy machine.
const SETTLING: Duration = Duration::from_secs(10);

fn mutex(store: &RedisStore) -> Arc<dyn Mutex> {
    store.mutex("m", MutexOptions::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_fifty_namespaces_take_three_connections() {
    let mut fixture = ServerFixture::start().await;
    let store = fixture.redis_store().await;
    let (mut guards, mut waiters) = (Vec::new(), Vec::new());
    for number in 0..50 {
        let view = store.namespace(&format!("n{number}")).await.unwrap();
        // The names of two namespaces are two names.
        let guard = mutex(&view).try_lock().await.unwrap().unwrap();
        let waiting = mutex(&view);
        waiters.push(spawn(async move { waiting.lock().await.unwrap().release().await.unwrap() }));
        until(mutex(&view).as_ref(), SETTLING, "a waiter", |inspection| inspection.waiters == 1).await;
        guards.push(guard);
    }
    assert!(fixture.connections().await <= 3, "{}", fixture.connections().await);
    for guard in guards {
        guard.release().await.unwrap();
    }
    for waiter in waiters {
        within(SETTLING, "a waiter", waiter.join()).await;
    }
    // Another runtime has no connections of its own to any of them.
    on_another_runtime(|runtime| {
        for number in 0..50 {
            let taken = async {
                let view = store.namespace(&format!("n{number}")).await.unwrap();
                mutex(&view).lock().await.unwrap().release().await.unwrap();
            };
            runtime.drive(taken);
        }
    });
    assert!(fixture.connections().await <= 4, "{}", fixture.connections().await);
}

/// While a call for another namespace waits on the connection for wake-ups.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_the_waiters_of_all_namespaces_are_pushed() {
    const ROUNDS: usize = 30;
    let fixture = ServerFixture::start().await;
    let proxy = Proxy::to(&fixture.server.url()).unwrap();
    let builder = RedisStore::builder(&proxy.url(&fixture.server.url())).unwrap().request_timeout(PATIENT);
    let (holder, waiter) = (fixture.redis_store().await, builder.connect().await.unwrap());
    let elsewhere = mutex(&holder).lock().await.unwrap();
    let waits = mutex(&waiter);
    let waiting = spawn(async move { waits.lock().await.unwrap().release().await.unwrap() });
    until(mutex(&holder).as_ref(), SETTLING, "a waiter", |inspection| inspection.waiters == 1).await;
    let mut taken = 0;
    let (holder, waiter) = (holder.namespace("view").await.unwrap(), waiter.namespace("view").await.unwrap());
    for _ in 0..ROUNDS {
        let guard = mutex(&holder).lock().await.unwrap();
        let next = mutex(&waiter);
        let waiting = spawn(async move { next.lock().await.unwrap() });
        until(mutex(&holder).as_ref(), SETTLING, "a waiter", |inspection| inspection.waiters == 1).await;
        let mark = proxy.mark();
        guard.release().await.unwrap();
        let guard = waiting.join().await;
        let of_the_view =
            |request: &Request| request.name.starts_with("EVAL") && request.text.contains("{view/");
        taken += proxy.requests_matching(mark, of_the_view).len();
        guard.release().await.unwrap();
    }
    // A waiter that is not woken polls first, which makes two scripts for each hand-over.
    assert!((ROUNDS..ROUNDS * 3 / 2).contains(&taken), "{taken} scripts of the waiter");
    elsewhere.release().await.unwrap();
    within(SETTLING, "the other namespace", waiting.join()).await;
}

#[tokio::test]
async fn c28_views_of_one_namespace_are_clones() {
    let fixture = ServerFixture::start().await;
    let store = fixture.redis_store().await;
    let (view, again) = (store.namespace("n").await.unwrap(), store.namespace("n").await.unwrap());
    let guard = mutex(&view).lock().await.unwrap();
    assert!(mutex(&again).try_lock().await.unwrap().is_none());
    assert!(mutex(&store).try_lock().await.unwrap().is_some(), "another namespace");
    // What a namespace closes is its own.
    view.close().await.unwrap();
    assert!(!guard.is_held());
    assert_eq!(again.ping().await.unwrap_err().kind(), ErrorKind::Closed);
    store.ping().await.unwrap();
    let anew = store.namespace("n").await.unwrap();
    assert!(within(SETTLING, "a lock", mutex(&anew).lock()).await.unwrap().is_held());
    assert_eq!(store.namespace("").await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    store.close().await.unwrap();
    assert_eq!(store.namespace("n").await.unwrap_err().kind(), ErrorKind::Closed);
    anew.ping().await.unwrap();
}

/// What is left of a store is its views.
#[tokio::test]
async fn c12_a_view_outlives_its_store() {
    let fixture = ServerFixture::start().await;
    let view = fixture.redis_store().await.namespace("n").await.unwrap();
    let guard = mutex(&view).lock().await.unwrap();
    drop(view);
    tokio::time::sleep(EPSILON).await;
    assert!(guard.is_held());
    drop(guard);
    let view = fixture.redis_store().await.namespace("n").await.unwrap();
    let guard = within(SETTLING, "the release came", mutex(&view).lock()).await.unwrap();
    assert!(guard.is_held());
}

#[tokio::test]
async fn c22_a_namespace_of_another_layout_is_refused() {
    let fixture = ServerFixture::start().await;
    fixture.server.command(&["SET", "{old/0}:layout", "1"]).unwrap();
    let error = fixture.redis_store().await.namespace("old").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConfigMismatch);
    assert!(error.to_string().contains("old"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_the_namespaces_on_a_cluster_share_the_connections_to_its_nodes() {
    let cluster = RedisCluster::start(RedisOptions::default()).unwrap();
    let url = format!("{}?client_name=views", cluster.url());
    let store = RedisStore::builder(&url).unwrap().request_timeout(PATIENT).connect().await.unwrap();
    for number in 0..20 {
        let view = store.namespace(&format!("n{number}")).await.unwrap();
        for name in 0..16 {
            let mutex = view.mutex(&format!("m{name}"), MutexOptions::default()).unwrap();
            drop(within(SETTLING, "a lock", mutex.lock()).await.unwrap());
        }
    }
    let count =
        |server: &RedisServer| server.command(&["CLIENT", "LIST"]).unwrap().matches(" name=views ").count();
    let counts: Vec<_> = cluster.nodes().iter().map(count).collect();
    assert!(counts.iter().all(|count| *count <= 3), "{counts:?}");
}
