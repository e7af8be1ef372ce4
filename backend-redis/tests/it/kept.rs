//! The keys of names, queues and processes, and how long they stay. The tests read the expiry of
//! the keys instead of waiting for it.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::time::Duration;

use crate::common::*;
use redis::AsyncCommands;
use stanchion_conformance::EPSILON;
use stanchion_core::OnMismatch;
use stanchion_core::spi::{Acquire, Acquired, Kept, ParameterCheck};
use stanchion_testbed::faults::Clock;
use stanchion_testbed::servers::RedisOptions;
use tokio::time::sleep;

const RETENTION: Duration = Duration::from_secs(1);

/// Makes a process whose keys expire soon after their last use.
async fn forgetful(fixture: &Fixture) -> Process {
    driven(fixture.builder().request_timeout(PATIENT).retention(RETENTION).steps().await.unwrap())
}

/// Returns the one key that contains `part`.
async fn key(fixture: &Fixture, part: &str) -> String {
    let found: Vec<_> = fixture.keys().await.into_iter().filter(|key| key.contains(part)).collect();
    let [key] = <[String; 1]>::try_from(found).expect("one such key");
    key
}

/// Checks that all keys of a semaphore stay for at least `least` milliseconds.
async fn all_stay(fixture: &Fixture, name: &str, least: i64) {
    let mut raw = fixture.raw().await;
    let keys: Vec<_> =
        fixture.keys().await.into_iter().filter(|key| key.ends_with(&format!(":{name}"))).collect();
    assert_eq!(keys.len(), 3, "the record, its expiries and its queue: {keys:?}");
    for key in keys {
        let left: i64 = raw.pttl(&key).await.unwrap();
        assert!(left >= least, "{key} expires in {left} ms");
    }
}

#[tokio::test]
async fn c8_c16_what_is_kept_outlives_the_longest_lease_whatever_the_retention() {
    let fixture = Fixture::shared();
    let process = forgetful(&fixture).await;
    let object = semaphore("s");
    granted(&process, &Acquire { lease: ttl(100_000), ..ask(&object) }).await;
    waits(&process, &Acquire { lease: ttl(30_000), ..ask(&object) }).await;
    waits(&process, &Acquire { lease: ttl(100), ..ask(&object) }).await;
    all_stay(&fixture, "s", 90_000).await;
    // As if all that time had passed. The next poll of the waiters gives their places a new lease.
    let mut raw = fixture.raw().await;
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(&mut raw).await.unwrap();
    let soon = seconds * 1_000_000 + micros + 20_000_000;
    let _: () = raw.hset(key(&fixture, "}:s:s").await, "expires", soon).await.unwrap();
    for part in ["}:s:s", "}:se:s", "}:sq:s"] {
        let _: () = raw.pexpire(key(&fixture, part).await, 20_000).await.unwrap();
    }
    poll(&process, &object).await;
    all_stay(&fixture, "s", 25_000).await;
}

#[tokio::test]
async fn c20_the_limit_stays_when_the_last_hold_was_abandoned() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let object = semaphore("s");
    let first = Acquire { lease: ttl(100), ..ask_many(&object, 1, 3) };
    granted(&process, &first).await;
    sleep(Duration::from_millis(200)).await;
    assert_eq!(renew(&process, &first).await, Kept::No, "the hold has expired");
    let check = ParameterCheck::First(OnMismatch::Refuse);
    let other = Acquire { check, ..ask_many(&object, 1, 4) };
    assert_eq!(acquire(&process, &other).await, Acquired::Mismatch { stored: 3 });
    assert_eq!(process.callers.inspect(&object).await.unwrap().limit, Some(3));
}

#[tokio::test]
async fn c25_a_held_mutex_that_was_looked_at_goes_with_all_its_keys() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let held = ask(&mutex("m"));
    granted(&process, &held).await;
    assert_eq!(process.callers.inspect(&held.object).await.unwrap().holders.len(), 1);
    let (keys, mut raw) = (fixture.keys().await, fixture.raw().await);
    assert_eq!(keys.len(), 1, "a string: {keys:?}");
    let left: u64 = raw.pttl(&keys[0]).await.unwrap();
    assert!(left <= 30_000, "it goes with the lease: {left} ms");
}

#[tokio::test]
async fn c25_a_mailbox_that_nobody_empties_is_bounded() {
    const BOUND: usize = 10_000;
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let object = semaphore("s");
    let mut raw = fixture.raw().await;
    for full in [false, true] {
        let (held, waiter) = (ask(&object), ask(&object));
        granted(&process, &held).await;
        waits(&process, &waiter).await;
        assert_eq!(release(&process, &held).await, Kept::Yes);
        let mailbox = key(&fixture, "}:box:").await;
        let last: String = raw.lindex(&mailbox, -1).await.unwrap();
        assert_eq!(last, waiter.ticket.to_string(), "the newest hint is there");
        let length: usize = raw.llen(&mailbox).await.unwrap();
        assert_eq!(length, if full { BOUND } else { 1 });
        let left: i64 = raw.pttl(&mailbox).await.unwrap();
        assert!((1..=10_000).contains(&left), "{left} ms");
        granted(&process, &waiter).await;
        release(&process, &waiter).await;
        let _: () = raw.rpush(&mailbox, vec!["hint"; BOUND]).await.unwrap();
    }
}

#[tokio::test]
async fn c25_processes_unheard_for_a_day_are_forgotten() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let object = semaphore("s");
    granted(&process, &ask(&object)).await;
    waits(&process, &ask(&object)).await;
    let (live, mut raw) = (key(&fixture, "}:live").await, fixture.raw().await);
    // One process was heard last in 1970, the other was judged dead in 1970.
    for (score, member) in [(1, "aa"), (-1, "bb")] {
        let _: () = raw.zadd(&live, member, score).await.unwrap();
    }
    let _: () = raw.pexpire(&live, 10_000).await.unwrap();
    poll(&process, &object).await;
    let left: i64 = raw.pttl(&live).await.unwrap();
    assert!(left > 3_600_000, "the key stays for a lease and the retention: {left} ms");
    let known: usize = raw.zcard(&live).await.unwrap();
    assert_eq!(known, 1, "the process that polls");
}

#[tokio::test]
async fn s6_a_waiter_larger_than_the_new_limit_stands_in_nobodys_way() {
    let fixture = Fixture::shared();
    let (process, other) = (fixture.process().await, fixture.process().await);
    let object = semaphore("s");
    let (held, large) = (ask_many(&object, 4, 4), ask_many(&object, 3, 4));
    granted(&process, &held).await;
    waits(&process, &large).await;
    process.callers.resize(&object, 2).await.unwrap();
    assert_eq!(release(&process, &held).await, Kept::Yes);
    // The large waiter lives, and has not asked again yet.
    poll(&process, &object).await;
    granted(&other, &Acquire { queue: false, ..ask_many(&object, 1, 2) }).await;
}

/// A process that asks is alive, whenever it was heard last.
#[tokio::test]
async fn c16_a_process_does_not_overtake_its_own_waiters() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let object = semaphore("s");
    let (held, waiter) = (ask(&object), ask(&object));
    granted(&process, &held).await;
    waits(&process, &waiter).await;
    let (live, mut raw) = (key(&fixture, "}:live").await, fixture.raw().await);
    let processes: Vec<String> = raw.zrange(&live, 0, -1).await.unwrap();
    // The process was silent for long, and a grace period has passed since.
    let _: () = raw.zadd(&live, &processes[0], 1).await.unwrap();
    let _: () = raw.set(live.replace("}:live", "}:grace"), 1_000_000).await.unwrap();
    assert_eq!(release(&process, &held).await, Kept::Yes);
    let rash = Acquire { queue: false, ..ask(&object) };
    assert!(matches!(acquire(&process, &rash).await, Acquired::Waiting { .. }), "its own waiter is first");
    granted(&process, &waiter).await;
}

/// After the clock went back, a dead waiter was last heard in the future, and would count as live
/// until that time.
#[tokio::test]
async fn c5_c7_a_dead_waiter_is_passed_over_also_after_the_clock_went_back() {
    let clock = Clock::new().unwrap();
    let (_server, fixture) = start(RedisOptions::default().clock(&clock));
    let (holder, dead, next) = (fixture.process().await, fixture.process().await, fixture.process().await);
    let object = semaphore("s");
    let (held, silent, waiter) = (ask(&object), ask(&object), ask(&object));
    granted(&holder, &held).await;
    waits(&dead, &silent).await;
    waits(&next, &waiter).await;
    clock.back(Duration::from_secs(3_600)).unwrap();
    assert_eq!(release(&holder, &held).await, Kept::Yes);
    turn(&next, &waiter, LIVENESS + GRACE + EPSILON).await;
    granted(&next, &waiter).await;
}
