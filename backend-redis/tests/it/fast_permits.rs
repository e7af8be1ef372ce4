//! A semaphore that nobody waits for is a string: its limit and, while they are few, its holds. A
//! step that needs more makes a hash of the string for as long.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::time::Duration;

use crate::common::*;
use redis::AsyncCommands;
use stanchion_conformance::steps::StepHarness;
use stanchion_core::clock::now;
use stanchion_core::spi::{Acquire, Acquired, Ask, Kept, ParameterCheck, Request, Response};
use stanchion_core::{ErrorKind, FencingToken, OnMismatch, Ticket};
use stanchion_testbed::faults::Clock;
use stanchion_testbed::servers::RedisOptions;
use tokio::time::{Instant, sleep};

/// Asks for permits of the one semaphore, of a limit of 4, without queueing.
fn tried(weight: u32) -> Acquire {
    Acquire { queue: false, ..ask_many(&semaphore("s"), weight, 4) }
}

/// Returns the key of the record, its type and, of a string, its value.
async fn record(fixture: &Fixture) -> (String, String, String) {
    fixture.check(&semaphore("s")).await;
    let keys = fixture.keys().await;
    let key = keys.into_iter().find(|key| key.contains("}:s:")).unwrap_or_default();
    let mut raw = fixture.raw().await;
    let kind: String = redis::cmd("TYPE").arg(&key).query_async(&mut raw).await.unwrap();
    let value = if kind == "string" { raw.get(&key).await.unwrap() } else { String::new() };
    (key, kind, value)
}

async fn kind(fixture: &Fixture) -> String {
    record(fixture).await.1
}

fn token(answer: &Acquired) -> FencingToken {
    match answer {
        Acquired::Granted { token, .. } => *token,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn s1_a_batch_takes_what_is_there_and_each_grant_has_a_token_of_its_own() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let batch = [tried(1), tried(2), tried(2), tried(1), tried(1)];
    let answers = acquire_all(&process, &batch).await;
    let refused = Acquired::Waiting { limit: 4, epoch: 0 };
    assert_eq!((&answers[2], &answers[4]), (&refused, &refused));
    let tokens = [0, 1, 3].map(|index: usize| token(&answers[index]));
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    assert_eq!(kind(&fixture).await, "string");
    // What a batch releases is there for its acquires, wherever they stand.
    let (next, late) = (tried(2), tried(1));
    let batch = [
        Request::Acquire(next.clone()),
        Request::Acquire(late),
        Request::Release(freeing(&batch[1], None)),
        Request::Release(freeing(&batch[1], None)),
    ];
    let answers = all(process.callers.send(&batch, now() + PATIENT).await);
    let last = token(&Acquire::answer(answers[0].clone()).unwrap());
    assert!(last > tokens[2]);
    assert_eq!(answers[1], Response::Acquire(refused));
    assert_eq!(answers[2..], [Response::Release(Kept::Yes), Response::Release(Kept::No)]);
    assert_eq!(kind(&fixture).await, "string", "a release that finds nothing makes a hash for a moment only");
    assert_eq!(token(&acquire(&process, &next).await), last, "a retry");
}

#[tokio::test]
async fn c8_a_look_changes_nothing() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let labels = ["", " ", "a b\n c", "1 2 3", &format!(" {} 9 9 9 9 9 0", Ticket::random())];
    let mut requests = Vec::new();
    for label in labels {
        let request = Acquire { label: Some(label.into()), ..ask_many(&semaphore("s"), 2, 100) };
        granted(&process, &request).await;
        requests.push(request);
    }
    let before = record(&fixture).await;
    let expiry = |key: String| async {
        redis::cmd("PEXPIRETIME").arg(key).query_async::<u64>(&mut fixture.raw().await).await.unwrap()
    };
    let end = expiry(before.0.clone()).await;
    for _ in 0..50 {
        let inspection = process.callers.inspect(&requests[0].object).await.unwrap();
        let seen: Vec<_> = inspection.holders.iter().map(|holder| holder.label.as_deref().unwrap()).collect();
        assert_eq!(seen, labels);
        assert_eq!(inspection.limit, Some(100));
        poll(&process, &requests[0].object).await;
    }
    let after = record(&fixture).await;
    assert_eq!(after.1, "string");
    // What is written anew is an upper bound of what is left of each lease.
    let holds = |value: &str| -> Vec<String> {
        value.split(' ').enumerate().filter(|(at, _)| at % 7 != 6).map(|(_, word)| word.to_owned()).collect()
    };
    assert_eq!(holds(&after.2).len(), holds(&before.2).len());
    assert_eq!(expiry(after.0).await, end);
    for request in &requests {
        assert_eq!(release(&process, request).await, Kept::Yes);
    }
    assert!(record(&fixture).await.2.split(' ').count() == 4, "no hold is left");
}

#[tokio::test]
async fn c20_a_free_semaphore_keeps_its_limit() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let request = tried(1);
    granted(&process, &request).await;
    release(&process, &request).await;
    let (key, kind, _) = record(&fixture).await;
    assert_eq!(kind, "string");
    let left: u64 = fixture.raw().await.pttl(&key).await.unwrap();
    assert!(left > 3_590_000, "{left} ms");
    let with = |limit: u32, check: ParameterCheck| Acquire { check, ..ask_many(&semaphore("s"), 1, limit) };
    let refuse = ParameterCheck::First(OnMismatch::Refuse);
    assert_eq!(acquire(&process, &with(5, refuse)).await, Acquired::Mismatch { stored: 4 });
    for check in [ParameterCheck::First(OnMismatch::Adopt), ParameterCheck::Follow] {
        let answer = acquire(&process, &with(5, check)).await;
        assert!(matches!(answer, Acquired::Granted { limit: 4, .. }), "{answer:?}");
        assert_eq!(record(&fixture).await.1, "string");
    }
    let full = Acquire { queue: false, weight: 3, ..with(5, ParameterCheck::Follow) };
    assert_eq!(acquire(&process, &full).await, Acquired::Waiting { limit: 4, epoch: 0 });
    let replace = ParameterCheck::First(OnMismatch::Replace);
    assert!(matches!(acquire(&process, &with(5, replace)).await, Acquired::Granted { limit: 5, .. }));
    assert_eq!(acquire(&process, &ask_many(&semaphore("s"), 6, 5)).await, Acquired::TooLarge { limit: 5 });
    process.callers.resize(&semaphore("s"), 2).await.unwrap();
    assert_eq!((kind_and_limit(&record(&fixture).await)), ("string".to_owned(), "2".to_owned()));
    assert_eq!(acquire(&process, &with(4, refuse)).await, Acquired::Mismatch { stored: 2 });
}

fn kind_and_limit((_, kind, value): &(String, String, String)) -> (String, String) {
    (kind.clone(), value.split(' ').nth(1).unwrap_or_default().to_owned())
}

#[tokio::test]
async fn c20_after_the_retention_another_limit_counts() {
    const RETENTION: Duration = Duration::from_secs(1);
    let fixture = Fixture::shared();
    let process = fixture.forgetful_process(Duration::ZERO, RETENTION).await;
    let lease = ttl(200);
    let request = Acquire { lease, ..tried(1) };
    for weight in [5, 6] {
        let asked = Instant::now();
        granted(&process, &request).await;
        release(&process, &request).await;
        let kept = kind(&fixture).await;
        assert!(kept == "string" || asked.elapsed() >= RETENTION, "{kept}");
        sleep(Duration::from_millis(1_100)).await;
        let other = Acquire { lease, ..ask_many(&semaphore("s"), weight, weight) };
        let asked = Instant::now();
        granted(&process, &other).await;
        let released = release(&process, &other).await;
        assert!(released == Kept::Yes || asked.elapsed() >= lease.get(), "{released:?}");
        sleep(Duration::from_millis(1_300)).await;
        assert_eq!(kind(&fixture).await, "none");
    }
}

#[tokio::test]
async fn s3_what_ended_is_free_once_and_a_renewed_hold_stays() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let brief = Acquire { lease: ttl(3_000), ..tried(2) };
    let kept = Acquire { lease: ttl(3_000), ..tried(1) };
    granted(&process, &brief).await;
    let before = granted(&process, &kept).await;
    assert_eq!(renew(&process, &Acquire { lease: ttl(60_000), ..kept.clone() }).await, Kept::Yes);
    assert_eq!(kind(&fixture).await, "string");
    sleep(Duration::from_millis(3_100)).await;
    assert_eq!(renew(&process, &brief).await, Kept::No);
    assert_eq!(acquire(&process, &tried(4)).await, Acquired::Waiting { limit: 4, epoch: 0 });
    let next = tried(3);
    assert!(granted(&process, &next).await > before);
    assert_eq!(acquire(&process, &tried(1)).await, Acquired::Waiting { limit: 4, epoch: 0 });
    assert_eq!(release(&process, &kept).await, Kept::Yes);
    assert_eq!(release(&process, &kept).await, Kept::No);
}

#[tokio::test]
async fn c16_who_would_wait_is_overtaken_by_nobody_behind_it_in_its_batch() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let first = tried(2);
    granted(&process, &first).await;
    let (large, small) = (Acquire { queue: true, ..tried(3) }, tried(1));
    let answers = acquire_all(&process, &[large.clone(), small]).await;
    assert!(answers.iter().all(|answer| matches!(answer, Acquired::Waiting { .. })), "{answers:?}");
    assert_eq!(kind(&fixture).await, "hash");
    release(&process, &first).await;
    granted(&process, &large).await;
}

#[tokio::test]
async fn s4_many_holds_are_a_hash_until_they_are_few() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let mut requests: Vec<_> = (0..16).map(|_| ask_many(&semaphore("s"), 1, 40)).collect();
    for request in &requests {
        granted(&process, request).await;
    }
    assert_eq!(kind(&fixture).await, "string");
    requests.extend((0..24).map(|_| ask_many(&semaphore("s"), 1, 40)));
    let asked = Instant::now();
    assert!(acquire_all(&process, &requests).await.iter().all(is_granted));
    assert_eq!(kind(&fixture).await, "hash");
    let full = Acquire { queue: false, ..ask_many(&semaphore("s"), 1, 40) };
    assert!(!is_granted(&acquire(&process, &full).await));
    let last = requests.pop().unwrap();
    for (left, request) in (1..=39).rev().zip(&requests) {
        assert_eq!(release(&process, request).await, Kept::Yes);
        // The form does not change with each hold, but only after a quiet second, which a machine
        // that stands still may take.
        let form = kind(&fixture).await;
        assert!(
            form == "hash" || left <= 16 && asked.elapsed() >= Duration::from_secs(1),
            "{form} of {left}"
        );
    }
    sleep(Duration::from_millis(1_100)).await;
    assert_eq!(renew(&process, &last).await, Kept::Yes);
    assert_eq!(kind(&fixture).await, "string");
    assert_eq!(release(&process, &last).await, Kept::Yes);
    granted(&process, &ask_many(&semaphore("s"), 40, 40)).await;
}

/// The clock of a server was ahead for a moment: what was kept then lasts no longer than it can
/// from now.
#[tokio::test]
async fn c7_a_clock_that_was_ahead_keeps_no_permit_and_no_key() {
    let clock = Clock::new().unwrap();
    let (_server, fixture) = start(RedisOptions::default().clock(&clock));
    let process = fixture.forgetful_process(Duration::ZERO, Duration::from_secs(60)).await;
    let ahead = Duration::from_secs(10 * 365 * 24 * 3_600);
    clock.forward(ahead).unwrap();
    let held = Acquire { lease: ttl(2_000), ..tried(3) };
    let last = granted(&process, &held).await;
    let ended = tried(1);
    granted(&process, &ended).await;
    release(&process, &ended).await;
    clock.back(ahead).unwrap();
    assert!(!is_granted(&acquire(&process, &tried(2)).await));
    sleep(Duration::from_millis(2_100)).await;
    let next = tried(4);
    assert!(granted(&process, &next).await > last);
    release(&process, &next).await;
    let (key, kind, _) = record(&fixture).await;
    let left: u64 = fixture.raw().await.pttl(&key).await.unwrap();
    assert_eq!(kind, "string");
    assert!(left <= 100_000, "{left} ms");
}

#[tokio::test]
async fn c12_a_release_and_a_renewal_need_no_memory() {
    let (_server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    let (first, second) = (tried(1), tried(1));
    granted(&process, &first).await;
    granted(&process, &second).await;
    command(&fixture, &["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = process.callers.acquire(&[tried(1)]).await.remove(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(renew(&process, &second).await, Kept::Yes);
    assert_eq!(release(&process, &first).await, Kept::Yes);
    let inspection = process.callers.inspect(&semaphore("s")).await;
    command(&fixture, &["CONFIG", "SET", "maxmemory", "0"]).await;
    drop(inspection);
    let inspection = process.callers.inspect(&semaphore("s")).await.unwrap();
    let holders: Vec<_> = inspection.holders.iter().map(|holder| holder.ticket).collect();
    assert_eq!(holders, [Some(second.ticket)]);
}

#[tokio::test]
async fn c19_what_somebody_else_keeps_there_stays() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    granted(&process, &tried(1)).await;
    let (key, ..) = record(&fixture).await;
    let mut raw = fixture.raw().await;
    let ticket = Ticket::random();
    for value in [
        "",
        "mine",
        "p",
        "p 1 2",
        "p 4 1 1 x",
        &format!("p 4 1 9 {ticket} 1 2 3"),
        &format!("{ticket} 1 2 3"),
    ] {
        let _: () = raw.set(&key, value).await.unwrap();
        for queue in [true, false] {
            let request = Acquire { queue, ..tried(1) };
            let error = process.callers.acquire(&[request]).await.remove(0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{value}: {error}");
            assert!(error.to_string().contains(&key), "{error}");
        }
        let kept: String = raw.get(&key).await.unwrap();
        assert_eq!(kept, value);
    }
}
