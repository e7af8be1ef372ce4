//! Where strings and hashes meet: what a look, a failed step or a large batch does to a record.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::time::Duration;

use crate::common::*;
use crate::large_names::calls;
use redis::AsyncCommands;
use stanchion_conformance::steps::StepHarness;
use stanchion_core::Ticket;
use stanchion_core::spi::{Acquire, Acquired, Cancel, Kept};
use stanchion_testbed::servers::RedisOptions;
use tokio::time::sleep;

/// Returns the key of the semaphore's record, and of its queue and the like, by the letters in
/// front of its name.
async fn key_of(fixture: &Fixture, letters: &str) -> String {
    let word = format!("}}:{letters}:");
    fixture.keys().await.into_iter().find(|key| key.contains(&word)).unwrap()
}

/// The stripe's prefix of all keys of the semaphore.
async fn prefix(fixture: &Fixture) -> String {
    let key = key_of(fixture, "s").await;
    key.split_inclusive("}:").next().unwrap().to_owned()
}

async fn changes(fixture: &Fixture) -> String {
    let info: String =
        redis::cmd("INFO").arg("persistence").query_async(&mut fixture.raw().await).await.unwrap();
    info.lines().find(|line| line.starts_with("rdb_changes_since_last_save")).unwrap().to_owned()
}

#[tokio::test]
async fn c20_a_look_at_what_nobody_waits_for_writes_nothing() {
    let (_server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    let object = semaphore("s");
    for request in [ask_many(&object, 2, 4), ask(&mutex("m"))] {
        granted(&process, &request).await;
        let before = changes(&fixture).await;
        let seen = process.callers.inspect(&request.object).await.unwrap();
        assert_eq!(seen.holders[0].ticket, Some(request.ticket));
        assert_eq!(changes(&fixture).await, before, "{:?}", request.object.kind);
    }
    let free = process.callers.inspect(&semaphore("free")).await.unwrap();
    assert_eq!((free.limit, free.holders.len()), (None, 0));
}

#[tokio::test]
async fn s3_a_step_that_fails_loses_no_permit_of_those_that_expired() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let object = semaphore("s");
    let held = ask_many(&object, 1, 2);
    granted(&process, &held).await;
    granted(&process, &ask_many(&object, 1, 2)).await;
    waits(&process, &ask_many(&object, 1, 2)).await;
    shorten(&process, std::slice::from_ref(&held), ttl(200)).await;
    sleep(Duration::from_millis(300)).await;
    let (mut raw, prefix) = (fixture.raw().await, prefix(&fixture).await);
    let grace = format!("{prefix}grace");
    let _: () = raw.del(&grace).await.unwrap();
    let _: () = raw.hset(&grace, "a", "foreign").await.unwrap();
    // Nothing is known of waiters whose stripe holds a foreign value.
    assert_eq!(poll(&process, &object).await.epoch, 0);
    let _: () = raw.del(&grace).await.unwrap();
    let used: u32 = raw.hget(key_of(&fixture, "s").await, "used").await.unwrap();
    assert_eq!(used, 1, "one of two expired");
    fixture.check(&object).await;
}

#[tokio::test]
async fn c21_a_foreign_value_beside_a_record_of_ours_is_the_one_that_is_named() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let object = semaphore("s");
    granted(&process, &ask_many(&object, 1, 2)).await;
    let mut raw = fixture.raw().await;
    let foreign = format!("{}se:s", prefix(&fixture).await);
    let _: () = raw.set(&foreign, "foreign").await.unwrap();
    let error = acquire_error(&process, &ask_many(&object, 2, 2)).await;
    assert!(error.contains("}:se:s") && error.contains("string"), "{error}");
}

async fn acquire_error(process: &Process, request: &Acquire) -> String {
    process.callers.acquire(std::slice::from_ref(request)).await.remove(0).unwrap_err().to_string()
}

/// A full step makes a hash of each string that it meets, which costs as much as the string has
/// holds.
#[tokio::test]
async fn c27_a_call_makes_hashes_of_a_bounded_number_of_strings() {
    const NAMES: usize = 200;
    let (_server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    let objects: Vec<_> = (0..NAMES).map(|number| semaphore(&format!("s{number}"))).collect();
    let requests: Vec<_> = objects.iter().map(|object| ask_many(object, 1, 16)).collect();
    for request in acquire_all(&process, &requests).await {
        assert!(is_granted(&request), "{request:?}");
    }
    let gone = |object: &_| Cancel {
        object: Clone::clone(object),
        ticket: Ticket::random(),
        tombstone: Some(ttl(500)),
    };
    let cancels: Vec<_> = objects.iter().map(gone).collect();
    let before = calls(&fixture, "evalsha").await;
    all(process.callers.cancel(&cancels).await);
    let calls = calls(&fixture, "evalsha").await - before;
    // Each stripe is a part of the batch, and every call but the last of them makes 32.
    assert!((NAMES as u64 / 32..=40).contains(&calls), "{calls} calls");
    for request in &requests {
        assert_eq!(release(&process, request).await, Kept::Yes);
    }
}

/// Where another process is about to take what is free and may die with it, nobody looks again for
/// long otherwise (M7).
#[tokio::test]
async fn m7_a_waiter_polls_soon_while_another_is_about_to_take_what_is_free() {
    let fixture = Fixture::shared();
    let [holder, first, second] = [fixture.process().await, fixture.process().await, fixture.process().await];
    let object = mutex("m");
    let held = ask(&object);
    granted(&holder, &held).await;
    waits(&first, &ask(&object)).await;
    waits(&second, &ask(&object)).await;
    assert!(!poll(&second, &object).await.is_first, "it is held, and another is in front");
    release(&holder, &held).await;
    assert!(poll(&second, &object).await.is_first);
    assert!(matches!(
        acquire(&second, &Acquire { queue: false, ..ask(&object) }).await,
        Acquired::Waiting { .. }
    ));
}

/// What a process is known by expires before its waiters do, if nobody keeps it. Then a mark alone
/// is not enough.
#[tokio::test]
async fn c16_places_are_not_kept_by_a_mark_that_expires_soon() {
    let fixture = Fixture::shared();
    let retention = Duration::from_secs(1);
    let process = driven(fixture.builder().retention(retention).steps().await.unwrap());
    let object = mutex("m");
    granted(&process, &Acquire { lease: ttl(100), ..ask(&object) }).await;
    waits(&process, &Acquire { lease: ttl(100), ..ask(&object) }).await;
    assert!(keep_places(&process, &object).await.is_some(), "it is asked for a poll");
    let lasting = fixture.process().await;
    let other = mutex("n");
    granted(&lasting, &ask(&other)).await;
    waits(&lasting, &ask(&other)).await;
    assert!(keep_places(&lasting, &other).await.is_none());
}
