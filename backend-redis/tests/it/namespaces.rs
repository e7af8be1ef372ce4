//! Views of other namespaces, which share the thread and the connections of their store.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests fail by panics")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::PATIENT;
use crate::common::private_server::{ServerFixture, until};
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_conformance::support::{
    EPSILON, Task, definite, eventually, on_another_runtime, spawn, within,
};
use stanchion_core::{ErrorKind, Mutex, MutexGuard, MutexOptions, Store};
use stanchion_redis::RedisStore;
use stanchion_testbed::faults::{Direction, Proxy, Request};
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
    assert_eq!(store.stats().connections, Some(fixture.connections().await));
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

/// Two clients of a server, one behind a proxy, and a waiter of the second one in its first
/// namespace, so that a call for that waits on its connection for wake-ups.
struct Pair {
    holder: RedisStore,
    waiter: RedisStore,
    proxy: Proxy,
    elsewhere: MutexGuard,
    waiting: Task<()>,
}

const ROUNDS: usize = 30;

impl Pair {
    async fn new(fixture: &ServerFixture, login: &str) -> Self {
        let proxy = Proxy::to(&fixture.server.url()).unwrap();
        let url = proxy.url(&fixture.server.url()).replace("redis://", &format!("redis://{login}"));
        let builder = RedisStore::builder(&url).unwrap().request_timeout(PATIENT);
        let (holder, waiter) = (fixture.redis_store().await, builder.connect().await.unwrap());
        let elsewhere = mutex(&holder).lock().await.unwrap();
        let waits = mutex(&waiter);
        let waiting = spawn(async move { waits.lock().await.unwrap().release().await.unwrap() });
        queued(&mutex(&holder), 1).await;
        Self { holder, waiter, proxy, elsewhere, waiting }
    }

    /// Hands a mutex over, again and again. A waiter that is not woken polls first, which makes two
    /// scripts each time.
    async fn hand_over(&self, holder: &dyn Mutex, waiter: &Arc<dyn Mutex>, namespace: &str) {
        let mut taken = 0;
        for _ in 0..ROUNDS {
            let guard = holder.lock().await.unwrap();
            let next = Arc::clone(waiter);
            let waiting = spawn(async move { next.lock().await.unwrap() });
            until(holder, SETTLING, "a waiter", |inspection| inspection.waiters == 1).await;
            let mark = self.proxy.mark();
            guard.release().await.unwrap();
            let guard = waiting.join().await;
            let key = format!("{{{namespace}/");
            let scripts = |request: &Request| request.name.starts_with("EVAL") && request.text.contains(&key);
            taken += self.proxy.requests_matching(mark, scripts).len();
            guard.release().await.unwrap();
        }
        assert!((ROUNDS..ROUNDS * 3 / 2).contains(&taken), "{taken} scripts of the waiter");
    }

    async fn end(self) {
        self.elsewhere.release().await.unwrap();
        within(SETTLING, "the other namespace", self.waiting.join()).await;
    }
}

async fn queued(mutex: &Arc<dyn Mutex>, waiters: u64) {
    until(mutex.as_ref(), SETTLING, "waiters", |inspection| inspection.waiters == waiters).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_the_waiters_of_all_namespaces_are_pushed() {
    let fixture = ServerFixture::start().await;
    let pair = Pair::new(&fixture, "").await;
    let holder = pair.holder.namespace("view").await.unwrap();
    let waiter = pair.waiter.namespace("view").await.unwrap();
    pair.hand_over(mutex(&holder).as_ref(), &mutex(&waiter), "view").await;
    pair.end().await;
}

/// A namespace that the user has no right to costs the others none of their wake-ups.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_refused_namespace_ends_no_wake_ups() {
    let fixture = ServerFixture::start().await;
    fixture.server.command(&["ACL", "SETUSER", "app", "on", ">pw", "~{stanchion/*}:*", "+@all"]).unwrap();
    let pair = Pair::new(&fixture, "app:pw@").await;
    let error = pair.waiter.namespace("other").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    let another = |store: &RedisStore| store.mutex("another", MutexOptions::default()).unwrap();
    pair.hand_over(another(&pair.holder).as_ref(), &another(&pair.waiter), "stanchion").await;
    pair.end().await;
}

/// A view that was dropped during an outage may have left places that nobody withdraws.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_places_that_an_earlier_view_left_are_those_of_a_dead_process() {
    let fixture = ServerFixture::start().await;
    let proxy = Proxy::to(&fixture.server.url()).unwrap();
    let builder = RedisStore::builder(&proxy.url(&fixture.server.url())).unwrap().request_timeout(PATIENT);
    let near = builder.connect().await.unwrap();
    let far = fixture.redis_store().await.namespace("view").await.unwrap();
    let named = |store: &RedisStore, name: &str| store.mutex(name, MutexOptions::default()).unwrap();
    let held = named(&far, "m0").lock().await.unwrap();
    let stripe = |name: &str| {
        let keys = fixture.server.command(&["KEYS", &format!("{{view/*}}:m:{name}")]).unwrap();
        keys.lines().find_map(|line| line.split_once("}:").map(|(tag, _)| tag.to_owned())).unwrap()
    };
    // Another name of the same stripe, whose waiters show that their process is alive.
    let mut beside = None;
    for number in 1.. {
        let (name, first) = (format!("m{number}"), stripe("m0"));
        let guard = named(&far, &name).lock().await.unwrap();
        if stripe(&name) == first {
            beside = Some((name, guard));
            break;
        }
    }
    let (beside, kept) = beside.unwrap();
    let view = near.namespace("view").await.unwrap();
    let waits = named(&view, "m0");
    let waiting = spawn(async move { waits.lock().await.map(drop) });
    queued(&named(&far, "m0"), 1).await;
    proxy.black_hole(Direction::Both);
    waiting.cancel().await;
    drop(view);
    // The engine of the view gives up.
    tokio::time::sleep(Duration::from_secs(4)).await;
    proxy.heal_by_reset();
    let view = definite(|| near.namespace("view")).await.unwrap();
    let waits = named(&view, &beside);
    let live = spawn(async move { waits.lock().await.unwrap().release().await.unwrap() });
    queued(&named(&far, &beside), 1).await;
    let waits = named(&far, "m0");
    let next = spawn(async move { waits.lock().await.unwrap().release().await.unwrap() });
    let joined = || async { named(&far, "m0").inspect().await.unwrap().waiters >= 1 };
    eventually(SETTLING, "the next waiter", joined).await;
    held.release().await.unwrap();
    within(Duration::from_secs(2) + EPSILON, "its turn", next.join()).await;
    kept.release().await.unwrap();
    within(SETTLING, "the live one", live.join()).await;
}

/// While its store is alive: the release is sent all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_the_drop_of_the_last_guard_of_a_view_blocks_nobody() {
    let fixture = ServerFixture::start().await;
    let url = fixture.server.url();
    let builder = RedisStore::builder(&url).unwrap().request_timeout(PATIENT).drain(Duration::from_secs(20));
    let store = builder.connect().await.unwrap();
    let view = store.namespace("view").await.unwrap();
    let guard = mutex(&view).lock().await.unwrap();
    drop(view);
    fixture.server.pause().unwrap();
    let watch = Stopwatch::start();
    drop(guard);
    assert!(watch.elapsed() < Duration::from_secs(5), "{:?}", watch.elapsed());
    fixture.server.resume().unwrap();
    let other = fixture.redis_store().await.namespace("view").await.unwrap();
    drop(within(SETTLING * 4, "the release", mutex(&other).lock()).await.unwrap());
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
