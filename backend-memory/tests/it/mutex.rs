//! The mutex, clause by clause. Most tests need no runtime at all.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Polled, kind, mutex, now, settle};
use stanchion_core::{ErrorKind, MutexOptions, Store, Ttl};
use stanchion_memory::MemoryStore;

#[test]
fn m1_one_holder_at_a_time() {
    let store = MemoryStore::new();
    let (one, two) = (mutex(&store, "a"), mutex(&store, "a"));
    let guard = now(one.lock()).unwrap();
    assert!(guard.is_held());
    assert!(now(two.try_lock()).unwrap().is_none());
    drop(guard);
    assert!(now(two.try_lock()).unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn m2_tokens_grow_over_all_handles_and_after_the_name_was_idle_although_the_clock_stands() {
    let store = MemoryStore::new();
    let mut last = None;
    for _ in 0..1000 {
        let guard = mutex(&store, "a").lock().await.unwrap();
        assert!(Some(guard.fencing_token()) > last);
        last = Some(guard.fencing_token());
        drop(guard);
        assert!(store.is_empty());
    }
}

#[test]
fn m2_tokens_grow_over_a_hand_off_and_stay_with_reenter_and_attach() {
    let store = MemoryStore::new();
    let one = mutex(&store, "a");
    let guard = now(one.lock()).unwrap();
    let token = guard.fencing_token();
    assert_eq!(guard.reenter().fencing_token(), token);
    let mut waiting = Polled::new(one.lock());
    assert!(waiting.poll().is_none());
    let detached = now(guard.detach(Ttl::new(Duration::from_secs(60)).unwrap())).unwrap();
    let guard = now(one.attach(&detached)).unwrap();
    assert_eq!(guard.fencing_token(), token);
    drop(guard);
    assert!(waiting.poll().unwrap().unwrap().fencing_token() > token);
}

#[test]
fn m3_tokens_grow_although_the_store_lost_its_data() {
    let store = MemoryStore::new();
    let one = mutex(&store, "a");
    let guard = now(one.lock()).unwrap();
    store.simulate_data_loss();
    assert!(!guard.is_held());
    // The clock has to move: tokens are microseconds.
    std::thread::sleep(Duration::from_millis(1));
    let next = now(one.try_lock()).unwrap().unwrap();
    assert!(next.fencing_token() > guard.fencing_token());
    assert_eq!(kind(now(guard.release())), ErrorKind::Lost);
    assert!(next.is_held());
}

#[tokio::test(start_paused = true)]
async fn m4_run_stops_at_the_deadline_and_at_the_loss() {
    let store = MemoryStore::new();
    let leased = crate::common::leased(&store, "a");
    let guard = leased.lock().await.unwrap();
    assert_eq!(kind(guard.run(std::future::pending::<()>()).await), ErrorKind::Lost);
    assert!(!guard.is_held());
    let one = mutex(&store, "b");
    let guard = one.lock().await.unwrap();
    assert_eq!(guard.run(async { 7 }).await.unwrap(), 7);
    let (stopped, freed) = tokio::join!(guard.run(std::future::pending::<()>()), one.force_unlock());
    assert_eq!(kind(stopped), ErrorKind::Lost);
    assert!(freed.unwrap());
}

#[test]
fn m5_not_reentrant_but_a_guard_can_be_shared() {
    let store = MemoryStore::new();
    let one = mutex(&store, "a");
    let guard = now(one.lock()).unwrap();
    assert!(now(one.try_lock()).unwrap().is_none());
    let twin = guard.reenter();
    drop(guard);
    assert!(twin.is_held());
    assert!(now(one.try_lock()).unwrap().is_none());
    now(twin.release()).unwrap();
    assert!(now(one.try_lock()).unwrap().is_some());
}

#[tokio::test]
async fn m6_a_release_wakes_the_next_waiter_only() {
    let store = MemoryStore::new();
    let one = mutex(&store, "a");
    let guard = one.lock().await.unwrap();
    let (mut first, mut second) = (Polled::new(one.lock()), Polled::new(one.lock()));
    assert!(first.poll().is_none() && second.poll().is_none());
    guard.release().await.unwrap();
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    let guard = first.poll().unwrap().unwrap();
    drop(guard);
    assert_eq!(second.wakes(), 1);
    assert!(second.poll().unwrap().is_ok());
}

#[tokio::test]
async fn m8_force_unlock_tells_the_holder_and_frees_the_name() {
    let store = MemoryStore::new();
    let one = mutex(&store, "a");
    assert!(!one.force_unlock().await.unwrap());
    let guard = Arc::new(one.lock().await.unwrap());
    let watching = Arc::clone(&guard);
    let lost = tokio::spawn(async move { watching.lost().await });
    let waiter = mutex(&store, "a");
    let waiting = tokio::spawn(async move { waiter.lock().await });
    settle().await;
    assert!(!lost.is_finished() && !waiting.is_finished());
    assert!(one.force_unlock().await.unwrap());
    assert!(!guard.is_held());
    lost.await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    let guard = Arc::into_inner(guard).unwrap();
    assert_eq!(kind(guard.release().await), ErrorKind::Lost);
    assert!(next.is_held());
}

#[test]
fn m8_force_unlock_between_grant_and_poll_leaves_the_waiter_first() {
    let store = MemoryStore::new();
    let one = mutex(&store, "a");
    let guard = now(one.lock()).unwrap();
    let (mut first, mut second) = (Polled::new(one.lock()), Polled::new(one.lock()));
    assert!(first.poll().is_none() && second.poll().is_none());
    drop(guard);
    assert!(now(one.force_unlock()).unwrap());
    // The hold passed to the second; the first is in front of all others again.
    assert!(first.poll().is_none());
    drop(second.poll().unwrap().unwrap());
    assert!(first.poll().unwrap().is_ok());
}

#[test]
fn c1_each_acquisition_has_its_own_ticket() {
    let store = MemoryStore::new();
    let one = mutex(&store, "a");
    let first = now(one.lock()).unwrap().ticket();
    assert_ne!(first, now(one.lock()).unwrap().ticket());
}

#[test]
fn c11_a_stale_guard_frees_nobody() {
    let store = MemoryStore::new();
    let one = mutex(&store, "a");
    let stale = now(one.lock()).unwrap();
    assert!(now(one.force_unlock()).unwrap());
    let guard = now(one.lock()).unwrap();
    assert_eq!(kind(now(stale.release())), ErrorKind::Lost);
    assert!(guard.is_held());
    assert!(now(one.try_lock()).unwrap().is_none());
}

#[test]
fn c12_guards_drop_without_a_runtime_and_after_it_ended() {
    let store = MemoryStore::new();
    let one = mutex(&store, "a");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let guard = runtime.block_on(one.lock()).unwrap();
    drop(runtime);
    drop(guard);
    let guard = now(one.lock()).unwrap();
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _guard = guard;
        panic!("a task that fails");
    }));
    assert!(unwound.is_err());
    assert!(now(one.try_lock()).unwrap().is_some());
}

#[test]
fn c16_first_come_first_served_and_try_lock_does_not_overtake() {
    let store = MemoryStore::new();
    let (one, two) = (mutex(&store, "a"), mutex(&store.client(), "a"));
    let guard = now(one.lock()).unwrap();
    let mut queue: Vec<_> =
        (0..20).map(|i| Polled::new(if i % 2 == 0 { one.lock() } else { two.lock() })).collect();
    queue.iter_mut().for_each(|waiting| assert!(waiting.poll().is_none()));
    drop(guard);
    for i in 0..queue.len() {
        assert!(now(two.try_lock()).unwrap().is_none());
        assert!(queue[i + 1..].iter_mut().all(|waiting| waiting.poll().is_none()));
        drop(queue[i].poll().unwrap().unwrap());
    }
    assert!(now(one.try_lock()).unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn c17_time_limits() {
    let store = MemoryStore::new();
    let one = mutex(&store, "a");
    let guard = one.lock().await.unwrap();
    assert!(now(one.lock_for(Duration::ZERO)).unwrap().is_none());
    for limit in [Duration::from_micros(10), Duration::from_millis(1), Duration::from_secs(7)] {
        let start = tokio::time::Instant::now();
        assert!(one.lock_for(limit).await.unwrap().is_none());
        assert!((limit..limit + Duration::from_millis(5)).contains(&start.elapsed()));
    }
    assert_eq!(one.inspect().await.unwrap().waiters, 0);
    let mut endless = Polled::new(one.lock_for(Duration::MAX));
    assert!(endless.poll().is_none());
    drop(guard);
    let guard = endless.poll().unwrap().unwrap();
    assert!(guard.is_some() && one.lock_for(Duration::ZERO).await.unwrap().is_none());
    drop(guard);
    assert!(one.lock_for(Duration::ZERO).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn c23_inspect_tells_holders_and_waiters() {
    let store = MemoryStore::new();
    let labelled =
        store.mutex("a", MutexOptions::default().label("nightly").max_hold(Duration::from_secs(9))).unwrap();
    assert_eq!(labelled.inspect().await.unwrap().limit, None);
    let guard = labelled.lock().await.unwrap();
    let mut waiting = Polled::new(labelled.lock());
    assert!(waiting.poll().is_none());
    tokio::time::advance(Duration::from_secs(2)).await;
    let inspection = labelled.inspect().await.unwrap();
    assert_eq!((inspection.waiters, inspection.limit), (1, Some(1)));
    let [holder] = &inspection.holders[..] else { panic!("one holder") };
    assert_eq!((holder.ticket, holder.token), (Some(guard.ticket()), Some(guard.fencing_token())));
    assert_eq!((holder.label.as_deref(), holder.weight), (Some("nightly"), 1));
    assert_eq!((holder.age, holder.lease_left), (Some(Duration::from_secs(2)), Some(Duration::from_secs(7))));
    drop(waiting);
    tokio::time::advance(Duration::from_secs(7)).await;
    let inspection = labelled.inspect().await.unwrap();
    assert!(inspection.holders.is_empty() && inspection.waiters == 0);
}

#[test]
fn c26_max_waiters_bounds_the_queue() {
    let store = MemoryStore::new();
    let bounded = store.mutex("a", MutexOptions::default().max_waiters(2)).unwrap();
    let guard = now(bounded.lock()).unwrap();
    let (mut first, mut second) = (Polled::new(bounded.lock()), Polled::new(bounded.lock()));
    assert!(first.poll().is_none() && second.poll().is_none());
    let error = now(bounded.lock()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    assert!(error.is_retryable());
    drop(first);
    let mut third = Polled::new(bounded.lock());
    assert!(third.poll().is_none());
    drop(guard);
    assert!(second.poll().unwrap().is_ok());
    assert!(third.poll().unwrap().is_ok());
}
