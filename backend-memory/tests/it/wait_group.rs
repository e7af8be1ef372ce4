//! The wait group, clause by clause.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::time::Duration;

use crate::common::{Polled, TTL, group, kind, now};
use stanchion_core::{ErrorKind, Member, OnMismatch, Outcome, Store, Ttl, WaitGroupOptions};
use stanchion_memory::MemoryStore;

fn sums(outcome: Outcome) -> (u64, u64, u64) {
    (outcome.finished, outcome.abandoned, outcome.expired)
}

fn limited(store: &MemoryStore, limit: u32) -> std::sync::Arc<dyn stanchion_core::WaitGroup> {
    store.wait_group("a", WaitGroupOptions::default().limit(limit)).unwrap()
}

#[test]
fn w1_wait_returns_at_zero_only() {
    let store = MemoryStore::new();
    let one = group(&store, "a");
    assert_eq!(sums(now(one.wait()).unwrap()), (0, 0, 0));
    let members = now(one.add_many(3)).unwrap();
    assert_eq!(now(one.count()).unwrap(), 3);
    let mut waiting = Polled::new(one.wait());
    for member in members {
        assert!(waiting.poll().is_none());
        now(member.done()).unwrap();
    }
    assert_eq!(sums(waiting.poll().unwrap().unwrap()), (3, 0, 0));
    assert_eq!(sums(now(one.wait()).unwrap()), (3, 0, 0));
    assert_eq!(now(one.count()).unwrap(), 0);
}

#[test]
fn w2_done_of_an_unknown_or_finished_member_is_an_error() {
    let store = MemoryStore::new();
    let one = group(&store, "a");
    assert_eq!(kind(now(one.done(stanchion_core::Ticket::random()))), ErrorKind::Lost);
    let (member, _other) = (now(one.add()).unwrap(), now(one.add()).unwrap());
    now(one.done(member.ticket())).unwrap();
    assert_eq!(kind(now(one.done(member.ticket()))), ErrorKind::Lost);
    assert!(!member.is_held());
    now(member.lost());
    assert_eq!(kind(now(member.done())), ErrorKind::Lost);
    assert_eq!(now(one.count()).unwrap(), 1);
}

#[test]
fn w3_every_waiter_returns_at_zero() {
    let store = MemoryStore::new();
    let handles: Vec<_> = (0..10).map(|_| group(&store.client(), "a")).collect();
    let member = now(handles[0].add()).unwrap();
    let mut waiting: Vec<_> = handles.iter().map(|handle| Polled::new(handle.wait())).collect();
    waiting.iter_mut().for_each(|waiting| assert!(waiting.poll().is_none()));
    now(member.done()).unwrap();
    for waiting in &mut waiting {
        assert!(waiting.wakes() > 0);
        assert!(waiting.poll().unwrap().unwrap().is_success());
    }
}

#[tokio::test(start_paused = true)]
async fn w4_abandoned_and_expired_members_are_reported() {
    let store = MemoryStore::new();
    let one = store.wait_group("a", WaitGroupOptions::default().ttl(TTL).renew(false)).unwrap();
    let kept = group(&store, "a");
    let finished = kept.add().await.unwrap();
    drop(kept.add().await.unwrap());
    std::mem::forget(one.add().await.unwrap());
    finished.done().await.unwrap();
    let start = tokio::time::Instant::now();
    let outcome = kept.wait().await.unwrap();
    assert_eq!(sums(outcome), (1, 1, 1));
    assert!(!outcome.is_success());
    assert_eq!(start.elapsed(), TTL);
}

#[tokio::test]
async fn c6_w4_a_member_whose_store_is_closed_before_anybody_polled_it_was_none() {
    let store = MemoryStore::new();
    let other = store.client();
    let options = || WaitGroupOptions::default().limit(1);
    let [group, left] = [&store, &other].map(|store| store.wait_group("g", options()).unwrap());
    let member = group.add().await.unwrap();
    let mut adding = Polled::new(left.add());
    assert!(adding.poll().is_none());
    member.done().await.unwrap();
    let mut waiting = Polled::new(group.wait());
    assert!(waiting.poll().is_none(), "it is the turn of the other");
    other.close().await.unwrap();
    let outcome = waiting.poll().unwrap().unwrap();
    assert_eq!((outcome.finished, outcome.abandoned, outcome.expired), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn w4_a_lease_that_appears_later_is_waited_for() {
    let store = MemoryStore::new();
    let one = group(&store, "a");
    let member = one.add().await.unwrap();
    let waiter = group(&store, "a");
    let waiting = tokio::spawn(async move { waiter.wait().await });
    crate::common::settle().await;
    member.detach(Ttl::new(TTL).unwrap()).await.unwrap();
    let start = tokio::time::Instant::now();
    assert_eq!(sums(waiting.await.unwrap().unwrap()), (0, 0, 1));
    assert_eq!(start.elapsed(), TTL);
}

#[test]
fn w5_a_later_generation_does_not_concern_earlier_waiters() {
    let store = MemoryStore::new();
    let one = group(&store, "a");
    let first = now(one.add()).unwrap();
    let mut early = Polled::new(one.wait());
    assert!(early.poll().is_none());
    now(first.done()).unwrap();
    let second = now(one.add_many(2)).unwrap();
    let mut late = Polled::new(one.wait());
    assert!(late.poll().is_none());
    drop(second);
    let third = now(one.add()).unwrap();
    assert_eq!(sums(early.poll().unwrap().unwrap()), (1, 0, 0));
    assert_eq!(sums(late.poll().unwrap().unwrap()), (0, 2, 0));
    drop(third);
}

#[test]
fn w6_absent_is_not_zero_for_who_has_seen_it_live() {
    let store = MemoryStore::new();
    let (adder, counter, stranger) = (group(&store, "a"), group(&store, "a"), group(&store, "a"));
    let _member = now(adder.add()).unwrap();
    assert_eq!(now(counter.count()).unwrap(), 1);
    let waiter = group(&store, "a");
    let mut waiting = Polled::new(waiter.wait());
    assert!(waiting.poll().is_none());
    store.simulate_data_loss();
    for gone in [waiting.poll().unwrap(), now(adder.wait()), now(counter.wait()), now(waiter.wait())] {
        assert_eq!(kind(gone), ErrorKind::StateLost);
    }
    assert_eq!(kind(now(adder.count())), ErrorKind::StateLost);
    assert_eq!(kind(now(adder.wait_for(Duration::ZERO))), ErrorKind::StateLost);
    assert!(now(stranger.wait()).is_ok());
    let again = now(adder.add()).unwrap();
    now(again.done()).unwrap();
    assert_eq!(sums(now(adder.wait()).unwrap()), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn w6_zero_is_kept_for_the_retention_time() {
    let store = MemoryStore::builder().retention(Duration::from_secs(60)).build();
    drop(group(&store, "a").add().await.unwrap());
    assert_eq!(store.len(), 1);
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(sums(group(&store, "a").wait().await.unwrap()), (0, 1, 0));
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(store.is_empty());
    assert_eq!(sums(group(&store, "a").wait().await.unwrap()), (0, 0, 0));
}

#[test]
fn w7_add_waits_at_the_limit() {
    let store = MemoryStore::new();
    let one = limited(&store, 2);
    let members = now(one.add_many(2)).unwrap();
    let mut adding = Polled::new(one.add());
    assert!(adding.poll().is_none());
    assert!(now(one.add_for(Duration::ZERO)).unwrap().is_none());
    assert_eq!(kind(now(one.add_many(3))), ErrorKind::InvalidArgument);
    assert_eq!(kind(now(one.add_many(0))), ErrorKind::InvalidArgument);
    drop(members);
    let member = adding.poll().unwrap().unwrap();
    assert!(member.is_held());
    assert_eq!(now(one.count()).unwrap(), 1);
    assert_eq!(sums(now(one.wait_for(Duration::ZERO)).unwrap().unwrap_or_default()), (0, 0, 0));
}

#[test]
fn w7_another_limit_is_a_mismatch() {
    let store = MemoryStore::new();
    let one = limited(&store, 2);
    let _members = now(one.add_many(2)).unwrap();
    let error = now(group(&store, "a").add()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConfigMismatch);
    assert!(error.to_string().contains("none") && error.to_string().contains('2'), "{error}");
    let options = WaitGroupOptions::default().on_mismatch(OnMismatch::Replace);
    let unlimited = store.wait_group("a", options).unwrap();
    assert!(now(unlimited.add()).is_ok());
}

#[tokio::test]
async fn w8_done_and_attach_from_another_process() {
    let store = MemoryStore::new();
    let (here, there) = (group(&store, "a"), group(&store.client(), "a"));
    let (one, two) = (here.add().await.unwrap(), here.add().await.unwrap());
    let lease = Ttl::new(Duration::from_secs(60)).unwrap();
    let (one, two) = (one.detach(lease).await.unwrap(), two.detach(lease).await.unwrap());
    there.done(one.ticket()).await.unwrap();
    let member: Member = there.attach(&two).await.unwrap();
    assert_eq!(kind(here.attach(&two).await), ErrorKind::Lost);
    assert_eq!(kind(here.done(two.ticket()).await), ErrorKind::Lost);
    let mut waiting = Polled::new(here.wait());
    assert!(waiting.poll().is_none());
    member.done().await.unwrap();
    assert_eq!(sums(waiting.poll().unwrap().unwrap()), (2, 0, 0));
}

#[test]
fn w4_a_cancelled_add_does_not_hide_an_outcome() {
    let store = MemoryStore::new();
    let one = limited(&store, 1);
    let member = now(one.add()).unwrap();
    let mut adding = Polled::new(one.add());
    assert!(adding.poll().is_none());
    drop(member);
    drop(adding);
    assert_eq!(now(one.count()).unwrap(), 0);
    assert_eq!(sums(now(one.wait()).unwrap()), (0, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn c17_wait_for_has_a_limit() {
    let store = MemoryStore::new();
    let one = group(&store, "a");
    let _member = one.add().await.unwrap();
    assert!(one.wait_for(Duration::ZERO).await.unwrap().is_none());
    let start = tokio::time::Instant::now();
    assert!(one.wait_for(Duration::from_secs(3)).await.unwrap().is_none());
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

/// Another record is not the one that was seen, however it ended.
#[test]
fn w6_a_record_made_after_a_loss_is_no_success_of_the_one_that_was_lost() {
    let store = MemoryStore::new();
    let (here, there) = (group(&store, "a"), group(&store.client(), "a"));
    let lost = now(here.add()).unwrap();
    store.simulate_data_loss();
    assert_eq!(kind(now(here.wait())), ErrorKind::StateLost);
    now(now(there.add()).unwrap().done()).unwrap();
    assert_eq!(kind(now(here.wait())), ErrorKind::StateLost);
    // That was told, and of the new record this handle knows.
    assert_eq!(sums(now(here.wait()).unwrap()), (1, 0, 0));
    let member = now(here.add()).unwrap();
    store.simulate_data_loss();
    let _other = now(there.add()).unwrap();
    assert_eq!(kind(now(here.count())), ErrorKind::StateLost);
    assert_eq!(now(here.count()).unwrap(), 1);
    drop((member, lost));
}
