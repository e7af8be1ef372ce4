//! The limiter, clause by clause, on a clock that the test moves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Polled, kind, now};
use stanchion_core::{DecidedBy, ErrorKind, Limiter, LimiterOptions, OnMismatch, Quota, Store};
use stanchion_memory::{ManualClock, MemoryStore};

fn setup(quota: Quota) -> (ManualClock, MemoryStore, Arc<dyn Limiter>) {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = store.limiter("a", LimiterOptions::new(quota)).unwrap();
    (clock, store, limiter)
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn l1_no_window_admits_more_than_burst_and_rate() {
    let (clock, _store, limiter) = setup(Quota::per(7, Duration::from_micros(1_000_003)).burst(5));
    let mut dice = crate::common::Dice(1);
    let mut admitted: Vec<(u64, u64)> = Vec::new();
    for _ in 0..5000 {
        clock.advance(Duration::from_micros(u64::try_from(dice.roll(200_000)).unwrap()));
        let cost = u64::try_from(dice.roll(4)).unwrap();
        if now(limiter.allow_n(cost)).unwrap().allowed {
            admitted.push((clock.micros(), cost));
        }
    }
    for (start, &(from, _)) in admitted.iter().enumerate() {
        let mut sum = 0;
        for &(to, cost) in admitted[start..].iter().take(200) {
            sum += u128::from(cost);
            assert!(sum * 1_000_003 <= 5 * 1_000_003 + 7 * u128::from(to - from));
        }
    }
}

#[test]
fn l2_who_comes_at_retry_after_is_admitted_and_a_microsecond_earlier_is_not() {
    let (clock, _store, limiter) = setup(Quota::per_second(3).burst(4));
    assert!(now(limiter.allow_n(4)).unwrap().allowed);
    let mut admitted = 0;
    for _ in 0..3000 {
        let wait = now(limiter.allow()).unwrap().retry_after.unwrap();
        clock.advance(wait - Duration::from_micros(1));
        assert!(!now(limiter.allow()).unwrap().allowed);
        clock.advance(Duration::from_micros(1));
        assert!(now(limiter.allow()).unwrap().allowed);
        admitted += 1;
    }
    assert_eq!(admitted, 3000);
}

#[test]
fn l4_a_clock_that_goes_back_mints_nothing() {
    let (clock, _store, limiter) = setup(Quota::per_second(10));
    assert!(now(limiter.allow_n(10)).unwrap().allowed);
    // A minute is waited for; after more, the clock was wrong before.
    for (back, wait) in [(60, Duration::from_secs(60) + 100 * MS), (3600, 100 * MS)] {
        clock.set_back(Duration::from_secs(back));
        let refused = now(limiter.allow()).unwrap();
        assert!(!refused.allowed);
        assert_eq!(refused.retry_after, Some(wait));
        clock.advance(wait - MS);
        assert!(!now(limiter.allow()).unwrap().allowed);
        clock.advance(MS);
        assert!(now(limiter.allow()).unwrap().allowed);
    }
}

#[test]
fn l6_reservations_are_in_order_and_refused_without_cost() {
    let (clock, store, limiter) = setup(Quota::per_second(10));
    let other = store.client().limiter("a", LimiterOptions::new(Quota::per_second(10))).unwrap();
    assert!(now(limiter.allow_n(10)).unwrap().allowed);
    let first = now(limiter.reserve_n(5, Duration::MAX)).unwrap().unwrap();
    assert!(now(other.reserve_n(1, 599 * MS)).unwrap().is_none());
    let second = now(other.reserve_n(1, 600 * MS)).unwrap().unwrap();
    assert!(second.ready_at() > first.ready_at());
    assert!(!first.is_due());
    clock.advance(500 * MS);
    assert!(first.is_due() && !second.is_due());
    now(first.wait());
    let mut waiting = Polled::new(second.wait());
    assert!(waiting.poll().is_none());
    clock.advance(99 * MS);
    assert!(waiting.poll().is_none());
    clock.advance(MS);
    assert!(waiting.poll().is_some());
}

#[test]
fn l6_wait_n_is_one_reservation_and_one_sleep() {
    let (clock, _store, limiter) = setup(Quota::per_second(10));
    now(limiter.wait_n(10)).unwrap();
    assert!(!now(limiter.wait_n_for(1, 99 * MS)).unwrap());
    let mut waiting = Polled::new(limiter.wait());
    let mut behind = Polled::new(limiter.wait_n_for(1, 200 * MS));
    assert!(waiting.poll().is_none() && behind.poll().is_none());
    clock.advance(100 * MS);
    assert!(waiting.poll().unwrap().is_ok() && behind.poll().is_none());
    clock.advance(100 * MS);
    assert!(behind.poll().unwrap().unwrap());
}

#[test]
fn l7_a_cancelled_reservation_gives_back_what_nobody_behind_it_used() {
    let (clock, _store, limiter) = setup(Quota::per_second(10));
    now(limiter.wait_n(10)).unwrap();
    let first = now(limiter.reserve_n(5, Duration::MAX)).unwrap().unwrap();
    let second = now(limiter.reserve_n(3, Duration::MAX)).unwrap().unwrap();
    assert_eq!(now(first.cancel()).unwrap(), 2);
    assert_eq!(now(second.cancel()).unwrap(), 3);
    drop(now(limiter.reserve_n(4, Duration::MAX)).unwrap());
    let due = now(limiter.reserve_n(1, Duration::MAX)).unwrap().unwrap();
    clock.advance(Duration::from_secs(2));
    assert_eq!(now(due.cancel()).unwrap(), 0);
}

#[test]
fn l8_a_decision_says_everything() {
    let (clock, _store, limiter) = setup(Quota::per_second(10).burst(20));
    let decision = now(limiter.allow_n(15)).unwrap();
    assert!(decision.allowed && decision.retry_after.is_none());
    assert_eq!((decision.limit, decision.remaining, decision.decided_by), (20, 5, DecidedBy::Store));
    assert_eq!(decision.reset_after, 1500 * MS);
    let decision = now(limiter.allow_n(6)).unwrap();
    assert_eq!((decision.allowed, decision.retry_after), (false, Some(100 * MS)));
    clock.advance(Duration::from_secs(5));
    assert_eq!(now(limiter.peek()).unwrap().remaining, 20);
}

#[test]
fn l9_cost_zero_asks_and_a_cost_over_the_burst_is_refused() {
    let (_clock, _store, limiter) = setup(Quota::per_second(10));
    assert_eq!(now(limiter.allow_n(0)).unwrap().remaining, 10);
    assert_eq!(now(limiter.peek()).unwrap().remaining, 10);
    for refused in [
        now(limiter.allow_n(11)).map(drop),
        now(limiter.wait_n(11)),
        now(limiter.wait_n_for(11, MS)).map(drop),
        now(limiter.reserve_n(11, MS)).map(drop),
    ] {
        assert_eq!(kind(refused), ErrorKind::InvalidArgument);
    }
}

#[test]
fn l11_a_quota_that_cannot_be_exact_is_refused() {
    let (_clock, store, limiter) = setup(Quota::per_second(10));
    let inexact = Quota::per(1 << 40, Duration::from_micros((1 << 40) + 1));
    let error = store.limiter("b", LimiterOptions::new(inexact)).unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, Some("limiter")));
    assert_eq!(kind(now(limiter.set_quota(inexact))), ErrorKind::InvalidArgument);
}

#[test]
fn c20_a_different_quota_is_never_silent() {
    let (_clock, store, limiter) = setup(Quota::per_second(10));
    assert!(now(limiter.allow_n(4)).unwrap().allowed);
    let options = LimiterOptions::new(Quota::per_second(20));
    let refusing = store.limiter("a", options.clone()).unwrap();
    let error = now(refusing.allow()).unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::ConfigMismatch, Some("allow")));
    let adopting = store.limiter("a", options.clone().on_mismatch(OnMismatch::Adopt)).unwrap();
    assert_eq!(now(adopting.peek()).unwrap().limit, 10);
    let replacing = store.limiter("a", options.on_mismatch(OnMismatch::Replace)).unwrap();
    assert_eq!(now(replacing.allow()).unwrap().limit, 20);
    assert_eq!(now(limiter.peek()).unwrap().remaining, 5);
    now(limiter.set_quota(Quota::per_second(2))).unwrap();
    assert_eq!(now(replacing.peek()).unwrap().remaining, 2);
    assert!(now(refusing.set_quota(Quota::per_second(20))).is_ok());
    assert_eq!(now(refusing.peek()).unwrap().limit, 20);
}

#[test]
fn reset_fills_the_bucket() {
    let (_clock, _store, limiter) = setup(Quota::per_hour(10));
    assert!(now(limiter.allow_n(10)).unwrap().allowed);
    now(limiter.reset()).unwrap();
    assert_eq!(now(limiter.peek()).unwrap().remaining, 10);
}

#[test]
fn c25_a_handle_for_each_request_still_limits() {
    let (clock, store, limiter) = setup(Quota::per_minute(3));
    drop(limiter);
    let request =
        || now(store.limiter("a", LimiterOptions::new(Quota::per_minute(3))).unwrap().allow()).unwrap();
    let allowed = (0..100).filter(|_| request().allowed).count();
    assert_eq!((allowed, store.len()), (3, 1));
    clock.advance(Duration::from_secs(60));
    assert_eq!(store.len(), 1, "the quota is kept");
    clock.advance(Duration::from_secs(60 * 60));
    assert!(store.is_empty());
    assert!(request().allowed);
    store.simulate_data_loss();
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn l6_waits_follow_the_stores_clock() {
    let store = MemoryStore::new();
    let limiter = store.limiter("a", LimiterOptions::new(Quota::per_second(1))).unwrap();
    let start = tokio::time::Instant::now();
    for _ in 0..4 {
        limiter.wait().await.unwrap();
    }
    assert!((3000 * MS..3005 * MS).contains(&start.elapsed()));
}
