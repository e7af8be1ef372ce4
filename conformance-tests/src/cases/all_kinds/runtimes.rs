//! Calls from anywhere: without a runtime, from one after the other, and from several at once.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{LimiterOptions, Mutex, MutexOptions, Quota, SemaphoreOptions, Store, WaitGroupOptions};

use crate::harness::Harness;
use crate::support::{
    BRIEF, EPSILON, Lone, POLL_FLOOR, definite, drive_bare, on_another_runtime, on_bare_thread, pause,
    poll_once, spawn, unique, within,
};

/// Uses a mutex, alone and with a waiter.
async fn lock_and_wait(store: &dyn Store, name: &str) {
    let mutex = store.mutex(name, MutexOptions::default()).expect("a mutex");
    let guard = mutex.lock().await.expect("lock");
    assert!(mutex.try_lock().await.expect("a definite answer").is_none());
    assert!(
        definite(|| mutex.lock_for(BRIEF)).await.expect("a definite answer").is_none(),
        "after some time"
    );
    assert_eq!(guard.run(async { 7 }).await.expect("held"), 7);
    guard.release().await.expect("release");
}

/// Makes calls of all kinds.
async fn call_all(store: &dyn Store, name: &str, ttl: Duration) {
    store.ping().await.expect("ping");
    lock_and_wait(store, name).await;
    let semaphore = store.semaphore(name, SemaphoreOptions::new(1)).expect("a semaphore");
    let mut options = SemaphoreOptions::new(1);
    (options.hold.ttl, options.hold.max_hold) = (Some(ttl), Some(ttl));
    let ending = store.semaphore(name, options).expect("a semaphore");
    let permit = ending.acquire().await.expect("acquire");
    let next = semaphore.acquire().await.expect("after the end of the hold");
    permit.lost().await;
    assert_eq!(semaphore.available().await.expect("a number"), 0);
    next.release().await.expect("release");
    let capabilities = store.capabilities();
    if capabilities.wait_groups {
        let group = store.wait_group(name, WaitGroupOptions::default()).expect("a group");
        let member = group.add().await.expect("add");
        assert!(definite(|| group.wait_for(BRIEF)).await.expect("a definite answer").is_none());
        member.done().await.expect("done");
        group.wait().await.expect("zero");
    }
    if capabilities.limiters {
        let quota = Quota::per(1, Duration::from_millis(50)).burst(1);
        let limiter = store.limiter(name, LimiterOptions::new(quota)).expect("a limiter");
        assert!(limiter.allow().await.expect("a decision").allowed);
        limiter.wait().await.expect("a token");
        drop(limiter.reserve_n(1, POLL_FLOOR).await.expect("a place"));
    }
    store.drain().await.expect("drained");
}

pub(crate) async fn c28_calls_need_no_runtime(h: &dyn Harness) {
    let (store, name, ttl) = (h.store().await, unique("bare"), h.ttl());
    on_bare_thread(|| drive_bare(call_all(store.as_ref(), &name, ttl))).expect("nothing panics");
}

pub(crate) async fn c28_calls_need_no_sockets_or_timers_of_their_runtime(h: &dyn Harness) {
    let (store, name, ttl) = (h.store().await, unique("idle"), h.ttl());
    let calls = || Lone::without_drivers().drive(call_all(store.as_ref(), &name, ttl));
    on_bare_thread(calls).expect("nothing panics");
}

pub(crate) async fn c28_a_store_outlives_the_runtimes_that_use_it(h: &dyn Harness) {
    let (store, name) = (h.store().await, unique("handle"));
    let store = store.as_ref();
    let mutex = store.mutex(&name, MutexOptions::default()).expect("a mutex");
    for _ in 0..3 {
        // Not drained: the runtime ends right after the drop of the guard.
        on_another_runtime(|lone| lone.drive(async { drop(mutex.lock().await.expect("lock")) }));
        let again = within(POLL_FLOOR + EPSILON, "the release outlives its runtime", mutex.lock()).await;
        again.expect("lock").release().await.expect("release");
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| on_another_runtime(|lone| lone.drive(lock_and_wait(store, &unique("runtime")))));
        }
    });
}

/// Polls a future for a while on a runtime that ends then.
fn poll_on_another_runtime<F: Future + Unpin + Send>(call: &mut F, time: Duration) -> bool {
    on_another_runtime(|lone| {
        lone.drive(async {
            tokio::select! {
                biased;
                _ = call => true,
                () = pause(time) => false,
            }
        })
    })
}

pub(crate) async fn c28_a_call_moves_from_one_runtime_to_another(h: &dyn Harness) {
    let (store, name) = (h.store().await, unique("moved"));
    let mutex = store.mutex(&name, MutexOptions::default()).expect("a mutex");
    let lock = |mutex: &Arc<dyn Mutex>| {
        let mutex = Arc::clone(mutex);
        Box::pin(async move { mutex.lock().await.expect("lock").release().await.expect("release") })
    };
    // It waits in the queue when its runtime ends.
    let guard = mutex.lock().await.expect("lock");
    let mut waiting = lock(&mutex);
    assert!(!poll_on_another_runtime(&mut waiting, BRIEF), "the mutex is held");
    guard.release().await.expect("release");
    within(POLL_FLOOR * 3 + EPSILON, "it goes on here", waiting).await;
    // Its request is under way when its runtime ends.
    let mut asking = lock(&mutex);
    let ended = on_another_runtime(|lone| lone.drive(poll_once(&mut asking)).is_some());
    if !ended {
        within(POLL_FLOOR * 3 + EPSILON, "it asks again", asking).await;
    }
    // As a task of the other runtime, it is dropped there with it.
    let other = Arc::clone(&mutex);
    on_another_runtime(|lone| {
        lone.drive(async {
            let _dropped = spawn(async move { other.lock().await.map(drop) });
            tokio::task::yield_now().await;
        });
    });
    let again = within(POLL_FLOOR * 3 + EPSILON, "nothing is left of it", mutex.lock()).await;
    again.expect("lock").release().await.expect("release");
}

/// The runtime that polled it first lives on, and nobody drives it.
pub(crate) async fn c28_a_call_leaves_a_runtime_that_stands_still(h: &dyn Harness) {
    let (store, name) = (h.store().await, unique("left"));
    let mutex = &store.mutex(&name, MutexOptions::default()).expect("a mutex");
    let lock =
        || Box::pin(async move { mutex.lock().await.expect("lock").release().await.expect("release") });
    on_another_runtime(|first| {
        first.drive(lock());
        let mut asking = lock();
        if first.drive(poll_once(&mut asking)).is_none() {
            on_another_runtime(|other| other.drive(within(EPSILON, "it goes on here", asking)));
        }
    });
}
