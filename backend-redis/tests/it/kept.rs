//! What is kept of names, queues and processes, and for how long: as the keys themselves tell, without a wait for their end.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::time::Duration;

use crate::harness::*;
use redis::AsyncCommands;
use stanchion_conformance::EPSILON;
use stanchion_core::OnMismatch;
use stanchion_core::steps::{Acquire, Acquired, Kept, LimitCheck};
use stanchion_testbed::faults::Clock;
use stanchion_testbed::servers::RedisOptions;
use tokio::time::sleep;

const RETENTION: Duration = Duration::from_secs(1);

/// A process whose keys go soon after their last use.
async fn forgetful(bed: &Bed) -> Process {
    driven(bed.builder().retention(RETENTION, RETENTION).steps().await.unwrap())
}

/// The one key with that part.
async fn key(bed: &Bed, part: &str) -> String {
    let found: Vec<_> = bed.keys().await.into_iter().filter(|key| key.contains(part)).collect();
    let [key] = <[String; 1]>::try_from(found).expect("one such key");
    key
}

/// All keys of a semaphore with this name stay at least that long, in milliseconds.
async fn all_stay(bed: &Bed, name: &str, least: i64) {
    let mut raw = bed.raw().await;
    let keys: Vec<_> =
        bed.keys().await.into_iter().filter(|key| key.ends_with(&format!(":{name}"))).collect();
    assert_eq!(keys.len(), 3, "the record, its expiries and its queue: {keys:?}");
    for key in keys {
        let left: i64 = raw.pttl(&key).await.unwrap();
        assert!(left >= least, "{key} goes in {left} ms");
    }
}

#[tokio::test]
async fn c8_c16_what_is_kept_outlives_the_longest_lease_whatever_the_retention() {
    let bed = Bed::shared();
    let process = forgetful(&bed).await;
    let object = semaphore("s");
    granted(&process, &Acquire { lease: ttl(100_000), ..ask(&object) }).await;
    waits(&process, &Acquire { lease: ttl(30_000), ..ask(&object) }).await;
    waits(&process, &Acquire { lease: ttl(100), ..ask(&object) }).await;
    all_stay(&bed, "s", 90_000).await;
    // As if all that time had passed: the next word of the waiters gives their places a lease anew.
    let mut raw = bed.raw().await;
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(&mut raw).await.unwrap();
    let soon = seconds * 1_000_000 + micros + 20_000_000;
    let _: () = raw.hset(key(&bed, "}:s:s").await, "kill", soon).await.unwrap();
    for part in ["}:s:s", "}:se:s", "}:sq:s"] {
        let _: () = raw.pexpire(key(&bed, part).await, 20_000).await.unwrap();
    }
    poll(&process, &object).await;
    all_stay(&bed, "s", 25_000).await;
}

#[tokio::test]
async fn c20_the_limit_stays_when_the_last_hold_was_abandoned() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = semaphore("s");
    let first = Acquire { lease: ttl(100), ..ask_many(&object, 1, 3) };
    granted(&process, &first).await;
    sleep(Duration::from_millis(200)).await;
    assert_eq!(renew(&process, &first).await, Kept::No, "it has expired");
    let check = LimitCheck::First(OnMismatch::Refuse);
    let other = Acquire { check, ..ask_many(&object, 1, 4) };
    assert_eq!(acquire(&process, &other).await, Acquired::Mismatch { stored: 3 });
    assert_eq!(process.callers.inspect(&object).await.unwrap().limit, Some(3));
}

#[tokio::test]
async fn c25_a_held_mutex_that_was_looked_at_goes_with_all_its_keys() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let held = ask(&mutex("m"));
    granted(&process, &held).await;
    assert_eq!(process.callers.inspect(&held.object).await.unwrap().holders.len(), 1);
    let (keys, mut raw) = (bed.keys().await, bed.raw().await);
    assert!(keys.len() >= 2, "a record and its expiries: {keys:?}");
    for key in keys {
        let left: i64 = raw.pttl(&key).await.unwrap();
        assert!(left > 0, "{key} has no expiry");
    }
}

#[tokio::test]
async fn c25_a_mailbox_that_nobody_empties_is_bounded() {
    const BOUND: usize = 10_000;
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = semaphore("s");
    let mut raw = bed.raw().await;
    for full in [false, true] {
        let (held, waiter) = (ask(&object), ask(&object));
        granted(&process, &held).await;
        waits(&process, &waiter).await;
        assert_eq!(release(&process, &held).await, Kept::Yes);
        let mailbox = key(&bed, "}:box:").await;
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
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = semaphore("s");
    granted(&process, &ask(&object)).await;
    waits(&process, &ask(&object)).await;
    let (live, mut raw) = (key(&bed, "}:live").await, bed.raw().await);
    // Heard in 1970, and judged dead in 1970.
    for (score, member) in [(1, "aa"), (-1, "bb")] {
        let _: () = raw.zadd(&live, member, score).await.unwrap();
    }
    let _: () = raw.pexpire(&live, 10_000).await.unwrap();
    poll(&process, &object).await;
    let left: i64 = raw.pttl(&live).await.unwrap();
    assert!(left > 3_600_000, "it stays for a lease and the retention: {left} ms");
    let known: usize = raw.zcard(&live).await.unwrap();
    assert_eq!(known, 1, "who polls");
}

#[tokio::test]
async fn s6_a_waiter_larger_than_the_new_limit_stands_in_nobodys_way() {
    let bed = Bed::shared();
    let (process, other) = (bed.process().await, bed.process().await);
    let object = semaphore("s");
    let (held, large) = (ask_many(&object, 4, 4), ask_many(&object, 3, 4));
    granted(&process, &held).await;
    waits(&process, &large).await;
    process.callers.resize(&object, 2).await.unwrap();
    assert_eq!(release(&process, &held).await, Kept::Yes);
    // The large one lives, and has not asked again yet.
    poll(&process, &object).await;
    granted(&other, &Acquire { queue: false, ..ask_many(&object, 1, 2) }).await;
}

/// Who asks is alive, whatever it was heard of last.
#[tokio::test]
async fn c16_a_process_does_not_overtake_its_own_waiters() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = semaphore("s");
    let (held, waiter) = (ask(&object), ask(&object));
    granted(&process, &held).await;
    waits(&process, &waiter).await;
    let (live, mut raw) = (key(&bed, "}:live").await, bed.raw().await);
    let processes: Vec<String> = raw.zrange(&live, 0, -1).await.unwrap();
    // Silent for long, on a server where a grace has passed since.
    let _: () = raw.zadd(&live, &processes[0], 1).await.unwrap();
    let _: () = raw.set(live.replace("}:live", "}:grace"), 1_000_000).await.unwrap();
    assert_eq!(release(&process, &held).await, Kept::Yes);
    let rash = Acquire { queue: false, ..ask(&object) };
    assert!(matches!(acquire(&process, &rash).await, Acquired::Waiting { .. }), "its own waiter is first");
    granted(&process, &waiter).await;
}

/// The last word of a dead waiter lies ahead then, and would make it live until the clock is there again.
#[tokio::test]
async fn c5_c7_a_dead_waiter_is_passed_over_also_after_the_clock_went_back() {
    let clock = Clock::new().unwrap();
    let (_server, bed) = start(RedisOptions::default().clock(&clock));
    let (holder, dead, next) = (bed.process().await, bed.process().await, bed.process().await);
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
