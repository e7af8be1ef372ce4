//! Views of other namespaces.

use std::sync::Arc;

use stanchion_core::{ErrorKind, LimiterOptions, Mutex, MutexOptions, Quota, SemaphoreOptions, Store, Ttl};

use crate::harness::Harness;
use crate::support::{POLL_FLOOR, QUEUED, kind_of, queue_of, spawn, tenant, within};

async fn view(store: &dyn Store, namespace: &str) -> Arc<dyn Store> {
    within(QUEUED, "a view", store.namespace(namespace)).await.expect("a view")
}

fn mutex(store: &dyn Store) -> Arc<dyn Mutex> {
    store.mutex("the same", MutexOptions::default()).expect("a mutex")
}

pub(crate) async fn c28_namespaces_share_no_state(h: &dyn Harness) {
    let (one, other) = (h.store().await, h.store().await);
    let (left, right) = (tenant("left"), tenant("right"));
    let views = [view(one.as_ref(), &left).await, view(one.as_ref(), &right).await];
    let held = mutex(views[0].as_ref()).lock().await.expect("lock");
    let free = mutex(views[1].as_ref()).try_lock().await.expect("an answer");
    assert!(free.is_some(), "it is free in another namespace");
    let theirs = view(other.as_ref(), &left).await;
    let taken = mutex(theirs.as_ref()).try_lock().await.expect("an answer");
    assert!(taken.is_none(), "it is held in that namespace, whoever asks");
    // The namespace of a view is no part of the name of another.
    let nested = view(views[1].as_ref(), &left).await;
    assert!(mutex(nested.as_ref()).try_lock().await.expect("an answer").is_none());
    held.release().await.expect("release");
    if one.capabilities().limiters {
        let limiter = |store: &Arc<dyn Store>| {
            let quota = LimiterOptions::new(Quota::per_hour(1));
            store.limiter("the same", quota).expect("a limiter")
        };
        assert!(limiter(&views[0]).allow().await.expect("a decision").allowed);
        assert!(limiter(&views[1]).allow().await.expect("a decision").allowed);
        assert!(!limiter(&theirs).allow().await.expect("a decision").allowed);
    }
}

pub(crate) async fn c12_c28_a_view_is_closed_by_itself(h: &dyn Harness) {
    let store = h.store().await;
    let namespace = tenant("closed");
    let (first, again) = (view(store.as_ref(), &namespace).await, view(store.as_ref(), &namespace).await);
    let elsewhere = mutex(store.as_ref()).lock().await.expect("lock");
    let guard = mutex(first.as_ref()).lock().await.expect("lock");
    first.close().await.expect("close");
    assert!(!guard.is_held(), "its holder is told");
    assert_eq!(kind_of(again.ping().await), Some(ErrorKind::Closed), "views of a namespace are clones");
    assert!(elsewhere.is_held(), "other namespaces go on");
    store.ping().await.expect("it is open");
    let anew = view(store.as_ref(), &namespace).await;
    let guard = within(QUEUED, "a lock", mutex(anew.as_ref()).lock()).await.expect("lock");
    elsewhere.release().await.expect("release");
    store.close().await.expect("close");
    assert_eq!(kind_of(store.namespace(&namespace).await), Some(ErrorKind::Closed));
    assert!(guard.is_held(), "another namespace goes on without it");
    guard.release().await.expect("release");
}

/// While somebody waits in the store's own namespace, too, on the same connection.
pub(crate) async fn c14_a_waiter_of_any_namespace_is_woken(h: &dyn Harness) {
    let (one, other) = (h.store().await, h.store().await);
    let namespace = tenant("woken");
    let views = [view(one.as_ref(), &namespace).await, view(other.as_ref(), &namespace).await];
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for (holder, waiter) in [(&one, &other), (&views[0], &views[1])] {
        let holder = mutex(holder.as_ref());
        held.push(holder.lock().await.expect("lock"));
        let waiter = mutex(waiter.as_ref());
        waiting.push(spawn(async move { waiter.lock().await }));
        queue_of(&holder, 1, QUEUED).await;
    }
    for (guard, waiter) in held.into_iter().zip(waiting).rev() {
        guard.release().await.expect("release");
        let guard = within(POLL_FLOOR, "it is told", waiter.join()).await.expect("lock");
        guard.release().await.expect("release");
    }
}

pub(crate) async fn c24_a_hold_of_another_namespace_is_refused(h: &dyn Harness) {
    let store = h.store().await;
    let views = [view(store.as_ref(), &tenant("from")).await, view(store.as_ref(), &tenant("to")).await];
    let [from, to] =
        views.map(|view| view.semaphore("the same", SemaphoreOptions::new(1)).expect("a semaphore"));
    let detached = from.acquire().await.expect("acquire").detach(Ttl::DEFAULT).await.expect("detach");
    assert_eq!(kind_of(to.attach(&detached).await), Some(ErrorKind::InvalidArgument));
    from.attach(&detached).await.expect("attach").release().await.expect("release");
}

pub(crate) async fn c19_a_bad_name_of_a_namespace_is_refused(h: &dyn Harness) {
    let store = h.store().await;
    for bad in ["", "a b", "a/b", "é", &"x".repeat(65)] {
        assert_eq!(kind_of(store.namespace(bad).await), Some(ErrorKind::InvalidArgument), "{bad}");
    }
}
