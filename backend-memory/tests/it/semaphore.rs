//! The semaphore, clause by clause.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::time::Duration;

use crate::common::{Polled, kind, now, semaphore};
use stanchion_core::{ErrorKind, ListOptions, OnMismatch, SemaphoreOptions, Store, Ttl};
use stanchion_memory::MemoryStore;

fn with(
    store: &MemoryStore,
    permits: u32,
    on_mismatch: OnMismatch,
) -> std::sync::Arc<dyn stanchion_core::Semaphore> {
    store.semaphore("a", SemaphoreOptions::new(permits).on_mismatch(on_mismatch)).unwrap()
}

#[test]
fn s1_the_limit_is_never_exceeded() {
    let store = MemoryStore::new();
    let one = semaphore(&store, "a", 3);
    let held: Vec<_> = (0..3).map(|_| now(one.acquire()).unwrap()).collect();
    assert!(now(one.try_acquire()).unwrap().is_none());
    assert_eq!(now(one.available()).unwrap(), 0);
    drop(held);
    assert_eq!(now(one.available()).unwrap(), 3);
}

#[test]
fn s2_many_are_one_decision() {
    let store = MemoryStore::new();
    let one = semaphore(&store, "a", 2);
    let both = now(one.acquire_many(2)).unwrap();
    assert_eq!(both.weight(), 2);
    let mut waiting = Polled::new(one.acquire_many(2));
    assert!(waiting.poll().is_none());
    drop(both);
    assert_eq!(waiting.poll().unwrap().unwrap().weight(), 2);
    assert_eq!(kind(now(one.acquire_many(3))), ErrorKind::InvalidArgument);
    assert_eq!(kind(now(one.try_acquire_many(3))), ErrorKind::InvalidArgument);
    assert_eq!(kind(now(one.acquire_many_for(3, Duration::from_secs(1)))), ErrorKind::InvalidArgument);
}

#[tokio::test(start_paused = true)]
async fn s3_the_permits_of_a_dead_holder_come_back_once() {
    let store = MemoryStore::new();
    let options = SemaphoreOptions::new(3).ttl(crate::common::TTL).renew(false);
    let one = store.semaphore("a", options).unwrap();
    std::mem::forget(one.acquire_many(2).await.unwrap());
    let kept = semaphore(&store, "a", 3).acquire().await.unwrap();
    let start = tokio::time::Instant::now();
    let back = one.acquire_many(2).await.unwrap();
    assert_eq!(start.elapsed(), crate::common::TTL);
    assert_eq!(one.available().await.unwrap(), 0);
    drop((kept, back));
    assert_eq!(one.available().await.unwrap(), 3);
}

#[test]
fn s5_a_large_request_is_not_passed_by_small_ones() {
    let store = MemoryStore::new();
    let one = semaphore(&store, "a", 3);
    let (first, second) = (now(one.acquire()).unwrap(), now(one.acquire()).unwrap());
    let mut large = Polled::new(one.acquire_many(3));
    let mut small = Polled::new(one.acquire());
    assert!(large.poll().is_none() && small.poll().is_none());
    assert!(now(one.try_acquire()).unwrap().is_none());
    drop(first);
    assert!(large.poll().is_none() && small.poll().is_none());
    drop(second);
    assert_eq!(large.poll().unwrap().unwrap().weight(), 3);
    assert!(small.poll().unwrap().is_ok());
}

#[test]
fn s5_a_cancelled_large_request_lets_the_small_ones_pass() {
    let store = MemoryStore::new();
    let one = semaphore(&store, "a", 2);
    let _held = now(one.acquire()).unwrap();
    let mut large = Polled::new(one.acquire_many(2));
    let mut small = Polled::new(one.acquire());
    assert!(large.poll().is_none() && small.poll().is_none());
    drop(large);
    assert_eq!(small.wakes(), 1);
    assert!(small.poll().unwrap().is_ok());
}

#[test]
fn s6_resize() {
    let store = MemoryStore::new();
    let one = semaphore(&store, "a", 1);
    let first = now(one.acquire()).unwrap();
    let mut waiting = Polled::new(one.acquire_many(1));
    assert!(waiting.poll().is_none());
    now(one.resize(2)).unwrap();
    let second = waiting.poll().unwrap().unwrap();
    now(one.resize(1)).unwrap();
    assert!(first.is_held() && second.is_held());
    assert_eq!(now(one.available()).unwrap(), 0);
    drop(first);
    assert!(now(one.try_acquire()).unwrap().is_none());
    drop(second);
    assert!(now(one.try_acquire()).unwrap().is_some());
    assert_eq!(kind(now(one.resize(0))), ErrorKind::InvalidArgument);
}

#[test]
fn s8_a_permit_is_a_guard_as_a_mutex_has() {
    let store = MemoryStore::new();
    let one = semaphore(&store, "a", 5);
    let _four = now(one.acquire_many(4)).unwrap();
    let permit = now(one.acquire()).unwrap();
    let (ticket, token) = (permit.ticket(), permit.fencing_token());
    assert!(permit.is_held() && permit.deadline().is_none());
    assert!(now(one.force_release(ticket)).unwrap());
    assert!(!now(one.force_release(ticket)).unwrap());
    assert!(!permit.is_held());
    now(permit.lost());
    assert_eq!(kind(now(permit.release())), ErrorKind::Lost);
    let next = now(one.acquire()).unwrap();
    assert!(next.fencing_token() > token);
    let detached = now(next.detach(Ttl::new(Duration::from_secs(60)).unwrap())).unwrap();
    let attached = now(one.attach(&detached)).unwrap();
    assert_eq!(attached.weight(), 1);
    assert!(now(one.try_acquire()).unwrap().is_none());
}

#[test]
fn c19_bad_counts_are_refused_first() {
    let store = MemoryStore::new();
    let one = semaphore(&store, "a", 2);
    for count in [0, u32::MAX] {
        assert_eq!(kind(now(one.acquire_many(count))), ErrorKind::InvalidArgument);
        assert_eq!(kind(now(one.try_acquire_many(count))), ErrorKind::InvalidArgument);
        assert_eq!(kind(store.semaphore("b", SemaphoreOptions::new(count))), ErrorKind::InvalidArgument);
    }
}

#[test]
fn c20_a_different_limit_is_never_silent() {
    let store = MemoryStore::new();
    let one = semaphore(&store, "a", 2);
    let held = now(one.acquire_many(2)).unwrap();
    let refusing = with(&store, 3, OnMismatch::Refuse);
    for _ in 0..2 {
        let error = now(refusing.acquire()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConfigMismatch);
        assert!(error.to_string().contains("is 3") && error.to_string().contains("is 2"), "{error}");
    }
    let adopting = with(&store, 3, OnMismatch::Adopt);
    assert!(now(adopting.try_acquire()).unwrap().is_none());
    assert_eq!(kind(now(adopting.acquire_many(3))), ErrorKind::InvalidArgument);
    let replacing = with(&store, 3, OnMismatch::Replace);
    let third = now(replacing.try_acquire()).unwrap();
    assert!(third.is_some());
    // After its first operation a handle follows the store.
    now(one.resize(4)).unwrap();
    assert_eq!(now(replacing.available()).unwrap(), 1);
    assert_eq!(now(adopting.inspect()).unwrap().limit, Some(4));
    drop(held);
}

#[test]
fn c20_a_queued_request_larger_than_the_new_limit_ends() {
    let store = MemoryStore::new();
    let one = semaphore(&store, "a", 3);
    let held = now(one.acquire_many(2)).unwrap();
    let mut large = Polled::new(one.acquire_many(3));
    let mut small = Polled::new(one.acquire_many(2));
    assert!(large.poll().is_none() && small.poll().is_none());
    now(one.resize(2)).unwrap();
    assert_eq!(large.wakes(), 1);
    assert_eq!(kind(large.poll().unwrap()), ErrorKind::InvalidArgument);
    assert!(small.poll().is_none());
    drop(held);
    assert!(small.poll().unwrap().is_ok());
}

#[test]
fn c20_waiters_bring_the_limit_again_after_a_loss() {
    let store = MemoryStore::new();
    let one = semaphore(&store, "a", 2);
    let lost = now(one.acquire_many(2)).unwrap();
    let mut queue: Vec<_> = (0..3).map(|_| Polled::new(one.acquire())).collect();
    queue.iter_mut().for_each(|waiting| assert!(waiting.poll().is_none()));
    store.simulate_data_loss();
    assert!(!lost.is_held());
    assert!(queue.iter().all(|waiting| waiting.wakes() == 1));
    // Whoever looks first brings the limit; the order stays.
    assert!(queue[2].poll().is_none());
    let first = queue[0].poll().unwrap().unwrap();
    let second = queue[1].poll().unwrap().unwrap();
    assert!(first.is_held() && second.is_held());
    assert!(queue[2].poll().is_none());
}

/// The name is idle from the release on, however long the permit was held.
#[tokio::test(start_paused = true)]
async fn c20_c25_the_limit_is_kept_for_the_retention_after_a_long_hold() {
    let store = MemoryStore::new();
    let hour = Duration::from_secs(60 * 60);
    let permit = semaphore(&store, "a", 5).acquire().await.unwrap();
    tokio::time::advance(hour * 2).await;
    drop(permit);
    let other = semaphore(&store, "a", 3);
    assert_eq!(kind(other.try_acquire().await), ErrorKind::ConfigMismatch);
    let listed = store.list(ListOptions::new()).await.unwrap().entries;
    assert_eq!((listed.len(), listed[0].last_used), (1, Some(Duration::ZERO)));
    drop(other);
    tokio::time::advance(hour + Duration::from_millis(1)).await;
    assert!(semaphore(&store, "a", 3).try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn c20_c25_the_limit_is_kept_for_the_retention_after_the_end_of_a_lease() {
    let store = MemoryStore::new();
    let hour = Duration::from_secs(60 * 60);
    let lease = Ttl::new(hour * 2).unwrap();
    let detached = semaphore(&store, "a", 5).acquire().await.unwrap().detach(lease).await;
    assert!(detached.is_ok());
    tokio::time::advance(hour * 3 - Duration::from_millis(1)).await;
    assert_eq!(kind(semaphore(&store, "a", 3).try_acquire().await), ErrorKind::ConfigMismatch);
    // Nobody has noticed the end of the lease before that, and the limit is kept no longer.
    tokio::time::advance(Duration::from_millis(2)).await;
    assert!(store.is_empty());
}
