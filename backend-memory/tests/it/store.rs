//! The store object: closing, sharing, bad input, idle names.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::time::Duration;

use crate::common::{Polled, group, kind, mutex, now, semaphore};
use stanchion_core::{
    ErrorKind, LimiterOptions, MutexMode, MutexOptions, Quota, SemaphoreOptions, Store, WaitGroupOptions,
};
use stanchion_memory::MemoryStore;

#[test]
fn c12_close_ends_the_calls_and_guards_of_its_own_store_object() {
    let store = MemoryStore::new();
    let other = store.client();
    let (ours, theirs) = (mutex(&store, "a"), mutex(&other, "a"));
    let guard = now(ours.lock()).unwrap();
    let mut our_call = Polled::new(ours.lock());
    let mut their_call = Polled::new(theirs.lock());
    assert!(our_call.poll().is_none() && their_call.poll().is_none());
    let mut lost = Polled::new(guard.lost());
    assert!(lost.poll().is_none());
    now(store.close()).unwrap();
    assert!(!guard.is_held());
    assert!(lost.poll().is_some());
    assert_eq!(kind(our_call.poll().unwrap()), ErrorKind::Closed);
    let their_guard = their_call.poll().unwrap().unwrap();
    assert!(their_guard.is_held());
    drop(lost);
    assert_eq!(kind(now(guard.release())), ErrorKind::Lost);
    assert!(their_guard.is_held());
    now(store.close()).unwrap();
}

#[test]
fn c12_a_closed_store_object_refuses_everything() {
    let store = MemoryStore::new();
    let (mutex, semaphore) = (mutex(&store, "a"), semaphore(&store, "a", 1));
    let group = group(&store, "a");
    let limiter = store.limiter("a", LimiterOptions::new(Quota::per_second(1))).unwrap();
    now(store.close()).unwrap();
    let refused = [
        kind(now(mutex.lock())),
        kind(now(mutex.try_lock())),
        kind(now(mutex.lock_for(Duration::from_secs(1)))),
        kind(now(mutex.inspect())),
        kind(now(mutex.force_unlock())),
        kind(now(semaphore.acquire())),
        kind(now(semaphore.available())),
        kind(now(semaphore.resize(2))),
        kind(now(group.add())),
        kind(now(group.wait())),
        kind(now(group.count())),
        kind(now(limiter.allow())),
        kind(now(limiter.wait_n(1))),
        kind(now(limiter.reset())),
        kind(now(store.ping())),
        kind(store.mutex("a", MutexOptions::default())),
        kind(store.client().client().close_and_open()),
    ];
    assert!(refused.iter().all(|kind| *kind == ErrorKind::Closed), "{refused:?}");
}

trait CloseAndOpen {
    fn close_and_open(&self) -> stanchion_core::Result<()>;
}

impl CloseAndOpen for MemoryStore {
    fn close_and_open(&self) -> stanchion_core::Result<()> {
        now(self.close())?;
        self.limiter("b", LimiterOptions::new(Quota::per_second(1))).map(drop)
    }
}

#[test]
fn c12_close_ends_those_who_wait_for_a_group_and_abandons_its_members() {
    let store = MemoryStore::new();
    let other = store.client();
    let (ours, theirs) = (group(&store, "a"), group(&other, "a"));
    let member = now(ours.add()).unwrap();
    let (mut our_wait, mut their_wait) = (Polled::new(ours.wait()), Polled::new(theirs.wait()));
    assert!(our_wait.poll().is_none() && their_wait.poll().is_none());
    now(store.close()).unwrap();
    assert_eq!(kind(our_wait.poll().unwrap()), ErrorKind::Closed);
    assert_eq!(their_wait.poll().unwrap().unwrap().abandoned, 1);
    drop(member);
    assert_eq!(now(theirs.wait()).unwrap().abandoned, 1);
}

#[tokio::test(start_paused = true)]
async fn c12_detached_holds_outlive_their_store_object() {
    let store = MemoryStore::new();
    let other = store.client();
    let detached = mutex(&store, "a")
        .lock()
        .await
        .unwrap()
        .detach(stanchion_core::Ttl::new(crate::common::TTL).unwrap())
        .await
        .unwrap();
    store.close().await.unwrap();
    assert!(mutex(&other, "a").try_lock().await.unwrap().is_none());
    assert!(mutex(&other, "a").attach(&detached).await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn c12_close_ends_a_limiters_wait_and_gives_its_place_back() {
    let store = MemoryStore::new();
    let options = LimiterOptions::new(Quota::per_second(1));
    let ours = store.limiter("a", options.clone()).unwrap();
    let theirs = store.client().limiter("a", options).unwrap();
    ours.wait().await.unwrap();
    let mut waiting = Polled::new(ours.wait());
    assert!(waiting.poll().is_none());
    store.close().await.unwrap();
    assert_eq!(kind(waiting.poll().unwrap()), ErrorKind::Closed);
    assert_eq!(theirs.peek().await.unwrap().reset_after, Duration::from_secs(1));
}

#[test]
fn c19_bad_input_is_refused_with_its_context() {
    let store = MemoryStore::new();
    for name in ["", "a\0b", &"x".repeat(513)] {
        let error = store.mutex(name, MutexOptions::default()).unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, Some("mutex")));
        assert_eq!(error.store(), Some("memory"));
        assert_eq!(kind(store.semaphore(name, SemaphoreOptions::new(1))), ErrorKind::InvalidArgument);
        assert_eq!(kind(store.wait_group(name, WaitGroupOptions::default())), ErrorKind::InvalidArgument);
        let quota = Quota::per_second(1);
        assert_eq!(kind(store.limiter(name, LimiterOptions::new(quota))), ErrorKind::InvalidArgument);
    }
    let short = MutexOptions::default().ttl(Duration::from_millis(99));
    assert_eq!(kind(store.mutex("a", short)), ErrorKind::InvalidArgument);
    assert_eq!(kind(store.wait_group("a", WaitGroupOptions::default().limit(0))), ErrorKind::InvalidArgument);
    assert!(store.is_empty());
}

#[test]
fn c19_every_other_name_is_its_own_and_kinds_do_not_see_each_other() {
    let store = MemoryStore::new();
    let names = ["a", "A", " a", "a ", "{a}", "a:b", "'\"%\\", "🦀", "é", "e\u{301}", &"x".repeat(512)];
    let guards: Vec<_> = names.iter().map(|name| now(mutex(&store, name).try_lock()).unwrap()).collect();
    assert!(guards.iter().all(Option::is_some));
    assert!(now(semaphore(&store, "a", 1).try_acquire()).unwrap().is_some());
    let _member = now(group(&store, "a").add()).unwrap();
    assert!(names.iter().all(|name| now(mutex(&store, name).try_lock()).unwrap().is_none()));
    assert_eq!(mutex(&store, "🦀").name(), "🦀");
}

#[test]
fn c19_named_stores_are_shared_and_others_are_not() {
    let (one, two) = (MemoryStore::named("shared"), MemoryStore::named("shared"));
    let _guard = now(mutex(&one, "a").lock()).unwrap();
    assert!(now(mutex(&two, "a").try_lock()).unwrap().is_none());
    assert!(now(mutex(&MemoryStore::named("another"), "a").try_lock()).unwrap().is_some());
    assert!(now(mutex(&MemoryStore::new(), "a").try_lock()).unwrap().is_some());
    now(one.close()).unwrap();
    assert!(now(mutex(&two, "a").try_lock()).unwrap().is_some());
}

#[test]
fn c19_another_client_of_a_view_is_in_the_same_namespace() {
    let view = MemoryStore::new().namespace("tenant").unwrap();
    let guard = now(mutex(&view, "a").lock()).unwrap();
    let other = mutex(&view.client(), "a");
    assert!(now(other.try_lock()).unwrap().is_none());
    now(view.close()).unwrap();
    assert!(!guard.is_held() && now(other.try_lock()).unwrap().is_some(), "only the view was closed");
}

#[test]
fn c21_errors_tell_operation_store_and_name() {
    let store = MemoryStore::new();
    let one = mutex(&store, "jobs");
    let guard = now(one.lock()).unwrap();
    now(one.force_unlock()).unwrap();
    let error = now(guard.release()).unwrap_err();
    assert_eq!(
        (error.operation(), error.store(), error.name()),
        (Some("release"), Some("memory"), Some("jobs"))
    );
    assert!(!error.is_retryable());
}

#[tokio::test(start_paused = true)]
async fn c25_c30_idle_names_leave_nothing() {
    let store = MemoryStore::new();
    for i in 0..1000 {
        let name = i.to_string();
        drop(mutex(&store, &name).lock().await.unwrap());
        drop(semaphore(&store, &name, 2));
        drop(group(&store, &name));
        drop(store.limiter(&name, LimiterOptions::new(Quota::per_second(1))).unwrap());
    }
    assert!(store.is_empty());
    let options = LimiterOptions::new(Quota::per_minute(2));
    assert!(store.limiter("a", options.clone()).unwrap().allow().await.unwrap().allowed);
    group(&store, "a").add().await.unwrap().done().await.unwrap();
    drop(semaphore(&store, "a", 2).acquire().await.unwrap());
    assert_eq!(store.len(), 3);
    tokio::time::advance(Duration::from_secs(60 * 60 + 1)).await;
    assert_eq!(store.len(), 1, "the bucket was full after 30 s");
    tokio::time::advance(Duration::from_secs(30)).await;
    assert!(store.is_empty());
}

#[test]
fn c25_a_guard_keeps_its_name_alive_and_data_loss_leaves_nothing() {
    let store = MemoryStore::new();
    let guard = now(mutex(&store, "a").lock()).unwrap();
    assert_eq!(store.len(), 1);
    assert!(now(mutex(&store, "a").try_lock()).unwrap().is_none());
    drop(now(group(&store, "g").add()).unwrap());
    assert_eq!(store.len(), 2);
    store.simulate_data_loss();
    assert_eq!(store.len(), 1);
    drop(guard);
    assert!(store.is_empty());
}

#[test]
fn capabilities_say_what_it_is() {
    let capabilities = MemoryStore::new().capabilities();
    assert_eq!((capabilities.store, capabilities.mutex_mode), ("memory", MutexMode::Process));
    assert!(!capabilities.shared && capabilities.survives_restart == Some(false));
    assert!(
        capabilities.wait_groups && capabilities.limiters && capabilities.wake_ups && capabilities.detach
    );
}

#[test]
fn c25_the_longest_retention_keeps_what_is_stored() {
    let store = MemoryStore::builder().retention(Duration::MAX).build();
    now(now(group(&store, "a").add()).unwrap().done()).unwrap();
    drop(now(semaphore(&store, "a", 5).acquire()).unwrap());
    now(store.limiter("a", LimiterOptions::new(Quota::per_second(1))).unwrap().allow()).unwrap();
    assert_eq!(store.len(), 3);
    assert_eq!(now(group(&store, "a").wait()).unwrap().finished, 1);
    assert_eq!(kind(now(semaphore(&store, "a", 3).try_acquire())), ErrorKind::ConfigMismatch);
}
