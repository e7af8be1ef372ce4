//! Leases where they are asked for: deadlines, expiry, detach and attach.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::time::Duration;

use crate::common::{Polled, TTL, kind, leased, mutex, settle};
use stanchion_core::{Detached, ErrorKind, Kind, MutexOptions, Name, Store, Ticket, Ttl};
use stanchion_memory::MemoryStore;
use tokio::time::{Instant, advance};

#[tokio::test(start_paused = true)]
async fn c8_others_are_granted_at_the_end_of_the_lease_and_not_before() {
    let store = MemoryStore::new();
    let guard = leased(&store, "a").lock().await.unwrap();
    let other = mutex(&store, "a");
    advance(TTL - Duration::from_millis(1)).await;
    assert!(other.try_lock().await.unwrap().is_none());
    advance(Duration::from_millis(1)).await;
    let next = other.try_lock().await.unwrap().unwrap();
    assert!(!guard.is_held() && next.is_held());
    assert_eq!(kind(guard.release().await), ErrorKind::Lost);
    assert!(next.is_held());
}

#[tokio::test(start_paused = true)]
async fn c8_a_waiter_is_granted_when_the_lease_ends() {
    let store = MemoryStore::new();
    let start = Instant::now();
    std::mem::forget(leased(&store, "a").lock().await.unwrap());
    let next = mutex(&store, "a").lock().await.unwrap();
    assert_eq!(start.elapsed(), TTL);
    assert!(next.deadline().is_none());
}

#[tokio::test(start_paused = true)]
async fn m7_after_dead_holders_in_a_row_the_next_is_granted() {
    let store = MemoryStore::new();
    let dying = leased(&store, "a");
    let start = Instant::now();
    for _ in 0..5 {
        std::mem::forget(dying.lock().await.unwrap());
    }
    drop(mutex(&store, "a").lock().await.unwrap());
    assert_eq!(start.elapsed(), TTL * 5);
}

#[tokio::test(start_paused = true)]
async fn c9_lost_resolves_at_the_deadline() {
    let store = MemoryStore::new();
    let guard = leased(&store, "a").lock().await.unwrap();
    let start = Instant::now();
    guard.lost().await;
    let belief = Ttl::new(TTL).unwrap().belief();
    assert!((belief..belief + Duration::from_millis(2)).contains(&start.elapsed()));
    assert!(!guard.is_held());
    guard.lost().await;
}

#[tokio::test(start_paused = true)]
async fn c9_lost_never_resolves_while_the_hold_lives() {
    let store = MemoryStore::new();
    let renewed = store.mutex("a", MutexOptions::default().ttl(TTL)).unwrap();
    let guard = renewed.lock().await.unwrap();
    assert!(guard.deadline().is_none());
    let waited = tokio::time::timeout(TTL * 100, guard.lost()).await;
    assert!(waited.is_err() && guard.is_held());
    // Nor when a twin is released or another name loses its holder.
    let other = mutex(&store, "b");
    let _lost = other.lock().await.unwrap();
    let mut lost = Polled::new(guard.lost());
    assert!(lost.poll().is_none());
    guard.reenter().release().await.unwrap();
    other.force_unlock().await.unwrap();
    assert!(lost.poll().is_none());
}

#[tokio::test(start_paused = true)]
async fn c10_is_held_is_false_from_the_deadline_exactly() {
    let store = MemoryStore::new();
    let guard = leased(&store, "a").lock().await.unwrap();
    let belief = Ttl::new(TTL).unwrap().belief();
    let start = Instant::now();
    assert_eq!(guard.deadline(), Some((start + belief).into_std()));
    advance(belief - Duration::from_nanos(1)).await;
    assert!(guard.is_held());
    advance(Duration::from_nanos(1)).await;
    assert!(!guard.is_held());
    advance(TTL).await;
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn c6_a_waiter_polled_late_gets_its_whole_lease() {
    let store = MemoryStore::new();
    let leased = leased(&store, "a");
    let guard = leased.lock().await.unwrap();
    let mut waiting = Polled::new(leased.lock());
    assert!(waiting.poll().is_none());
    drop(guard);
    advance(TTL * 3 / 4).await;
    let guard = waiting.poll().unwrap().unwrap();
    advance(TTL * 3 / 4).await;
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn c6_a_waiter_polled_after_its_lease_queues_again_in_front() {
    let store = MemoryStore::new();
    let leased = leased(&store, "a");
    let guard = leased.lock().await.unwrap();
    let (mut first, mut second) = (Polled::new(leased.lock()), Polled::new(leased.lock()));
    assert!(first.poll().is_none() && second.poll().is_none());
    drop(guard);
    advance(TTL).await;
    let other = leased.lock();
    let mut other = Polled::new(other);
    // The end of the first's lease is noticed, and the hold passes to the second.
    assert!(other.poll().is_none() && first.poll().is_none());
    drop(second.poll().unwrap().unwrap());
    drop(first.poll().unwrap().unwrap());
    assert!(other.poll().unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn c5_a_waiter_polled_after_its_lease_is_granted_at_once_where_nobody_else_waits() {
    let store = MemoryStore::new();
    let leased = leased(&store, "a");
    let guard = leased.lock().await.unwrap();
    let mut waiting = Polled::new(leased.lock());
    assert!(waiting.poll().is_none());
    drop(guard);
    advance(TTL).await;
    let wakes = waiting.wakes();
    let late = waiting.poll().unwrap_or_else(|| {
        // Nothing else would wake it.
        assert!(waiting.wakes() > wakes, "it is free, and its waiter is not woken");
        waiting.poll().unwrap()
    });
    let late = late.unwrap();
    assert!(late.is_held());
}

#[tokio::test(start_paused = true)]
async fn c24_c23_an_attached_hold_keeps_its_label_unless_it_is_given_another() {
    let store = MemoryStore::new();
    let labelled = |label: &str| store.mutex("a", MutexOptions::default().label(label)).unwrap();
    let shown = async || mutex(&store, "a").inspect().await.unwrap().holders[0].label.clone();
    let detached = labelled("first").lock().await.unwrap().detach(Ttl::new(TTL).unwrap()).await.unwrap();
    let attached = mutex(&store, "a").attach(&detached).await.unwrap();
    assert_eq!(shown().await.as_deref(), Some("first"));
    let detached = attached.detach(Ttl::new(TTL).unwrap()).await.unwrap();
    let _attached = labelled("second").attach(&detached).await.unwrap();
    assert_eq!(shown().await.as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn c9_max_hold_ends_renewal() {
    let store = MemoryStore::new();
    let limit = Duration::from_secs(60);
    let bounded = store.mutex("a", MutexOptions::default().max_hold(limit)).unwrap();
    let guard = bounded.lock().await.unwrap();
    let start = Instant::now();
    guard.lost().await;
    assert!(start.elapsed() > limit / 2 && start.elapsed() < limit);
    drop(mutex(&store, "a").lock().await.unwrap());
    assert_eq!(start.elapsed(), limit);
}

#[tokio::test(start_paused = true)]
async fn c24_detach_and_attach() {
    let store = MemoryStore::new();
    let (here, there) = (mutex(&store, "a"), mutex(&store.client(), "a"));
    let guard = here.lock().await.unwrap();
    let token = guard.fencing_token();
    let detached = guard.detach(Ttl::new(TTL).unwrap()).await.unwrap();
    assert!(here.try_lock().await.unwrap().is_none());
    let text = detached.to_string();
    let attached = there.attach(&text.parse().unwrap()).await.unwrap();
    assert_ne!(attached.ticket(), detached.ticket());
    assert_eq!(attached.fencing_token(), token);
    assert_eq!(kind(here.attach(&detached).await), ErrorKind::Lost);
    advance(TTL * 2).await;
    assert!(attached.is_held());
    assert!(here.try_lock().await.unwrap().is_none());
    attached.release().await.unwrap();
    assert!(here.try_lock().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn c24_a_hold_with_a_guard_is_not_to_be_had() {
    let store = MemoryStore::new();
    let one = mutex(&store, "a");
    let guard = one.lock().await.unwrap();
    for ticket in [guard.ticket(), Ticket::random(), Ticket::detached()] {
        let (name, token) = (Name::new("a").unwrap(), guard.fencing_token());
        let detached = Detached::new(Kind::Mutex, "stanchion", &name, ticket, token);
        assert_eq!(kind(one.attach(&detached).await), ErrorKind::Lost);
    }
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn c24_a_detached_hold_ends_with_its_lease_even_if_nobody_has_the_name_open() {
    let store = MemoryStore::new();
    let detached = mutex(&store, "a").lock().await.unwrap().detach(Ttl::new(TTL).unwrap()).await.unwrap();
    assert_eq!(store.len(), 1);
    assert!(mutex(&store, "a").try_lock().await.unwrap().is_none());
    advance(TTL + Duration::from_millis(1)).await;
    assert!(store.is_empty());
    assert_eq!(kind(mutex(&store, "a").attach(&detached).await), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn c8_a_lease_that_appears_while_others_wait_is_waited_for() {
    let store = MemoryStore::new();
    let one = mutex(&store, "a");
    let guard = one.lock().await.unwrap();
    let waiter = mutex(&store, "a");
    let waiting = tokio::spawn(async move { waiter.lock().await.map(drop) });
    settle().await;
    let start = Instant::now();
    let detached = guard.detach(Ttl::new(TTL * 10).unwrap()).await.unwrap();
    settle().await;
    // Taken over with a lease that ends sooner: the waiter must look sooner.
    std::mem::forget(leased(&store, "a").attach(&detached).await.unwrap());
    waiting.await.unwrap().unwrap();
    assert_eq!(start.elapsed(), TTL);
}

#[tokio::test(start_paused = true)]
async fn c6_a_waiter_that_nobody_polls_has_its_turn_for_30_s() {
    let store = MemoryStore::new();
    let mutex = mutex(&store, "a");
    let guard = mutex.lock().await.unwrap();
    let mut left = Polled::new(mutex.lock());
    assert!(left.poll().is_none());
    let start = Instant::now();
    let mut next = Box::pin(mutex.lock());
    tokio::select! {
        biased;
        _ = &mut next => panic!("it is held"),
        () = std::future::ready(()) => drop(guard),
    }
    let guard = next.await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(30));
    // It is in front of those who came after it.
    let mut last = Polled::new(mutex.lock());
    assert!(left.poll().is_none() && last.poll().is_none());
    drop(guard);
    assert!(last.poll().is_none());
    let guard = left.poll().unwrap().unwrap();
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(guard.is_held(), "once it was handed out it has no lease");
    drop(guard);
    assert!(last.poll().unwrap().is_ok());
}
