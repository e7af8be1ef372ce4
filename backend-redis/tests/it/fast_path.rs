//! A mutex that nobody waits for is a string, and no key at all while it is free. A step that needs
//! more makes a hash of the string for as long.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::time::Duration;

use crate::common::*;
use redis::AsyncCommands;
use stanchion_core::spi::{Acquire, Acquired, Kept, Object};
use stanchion_core::{ErrorKind, FencingToken, Kind, Name, Ticket};
use stanchion_testbed::faults::Clock;
use stanchion_testbed::servers::RedisOptions;
use tokio::time::{Instant, sleep};

/// Returns the key and the type of the one mutex of a namespace; `none` if it has no key.
async fn record(fixture: &Fixture) -> (String, String) {
    let keys = fixture.keys().await;
    let Some(key) = keys.into_iter().find(|key| key.contains("}:m:")) else {
        return (String::new(), "none".to_owned());
    };
    let kind = redis::cmd("TYPE").arg(&key).query_async(&mut fixture.raw().await).await.unwrap();
    (key, kind)
}

async fn kind(fixture: &Fixture) -> String {
    record(fixture).await.1
}

#[tokio::test]
async fn c25_c30_a_free_mutex_has_no_key_and_a_held_one_is_a_string_that_ends_with_its_lease() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let request = ask(&mutex("m"));
    granted(&process, &request).await;
    assert_eq!((kind(&fixture).await.as_str(), fixture.keys().await.len()), ("string", 1));
    let (key, _) = record(&fixture).await;
    let left: i64 = fixture.raw().await.pttl(key).await.unwrap();
    let lease = i64::try_from(request.lease.get().as_millis()).unwrap();
    assert!((1..=lease).contains(&left), "{left} ms");
    assert_eq!(release(&process, &request).await, Kept::Yes);
    assert_eq!(fixture.keys().await, Vec::<String>::new());
}

/// Names in requests of 500 leave the marks of the stripes, whatever their number.
#[tokio::test]
async fn c25_names_that_were_used_once_leave_nothing() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    for part in 0..40 {
        let object =
            |index: u32| Object { kind: Kind::Mutex, name: Name::new(&format!("{part}/{index}")).unwrap() };
        let requests: Vec<_> = (0..500).map(|index| ask(&object(index))).collect();
        for answer in process.callers.acquire(&requests).await {
            assert!(matches!(answer, Ok(Acquired::Granted { .. })), "{answer:?}");
        }
        let releases: Vec<_> = requests.iter().map(|request| freeing(request, None)).collect();
        assert!(all(process.own.release(&releases).await).into_iter().all(|kept| kept == Kept::Yes));
    }
    assert_eq!(fixture.keys().await, Vec::<String>::new());
    let pattern = format!("{{{}/*", fixture.namespace);
    let left: Vec<String> =
        redis::cmd("KEYS").arg(pattern).query_async(&mut fixture.raw().await).await.unwrap();
    assert!(left.len() <= 17, "the layout and 16 marks: {left:?}");
}

#[tokio::test]
async fn m2_the_token_grows_through_all_forms() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let mut last = 0;
    for round in 0..30 {
        let request = ask(&mutex("m"));
        let token = granted(&process, &request).await;
        assert!(token.get() > last);
        last = token.get();
        if round % 3 == 0 {
            let inspection = process.callers.inspect(&request.object).await.unwrap();
            assert_eq!((inspection.holders.len(), inspection.holders[0].token), (1, Some(token)));
            assert!(inspection.holders[0].lease_left.unwrap() <= request.lease.get());
        }
        if round % 4 == 0 {
            let waiter = ask(&mutex("m"));
            waits(&process, &waiter).await;
            assert_eq!(kind(&fixture).await, "hash");
            cancel(&process, &waiter).await;
        }
        if round % 5 == 0 {
            assert_eq!(renew(&process, &request).await, Kept::Yes);
        }
        assert_eq!(granted(&process, &request).await, token, "a retry");
        assert_eq!(release(&process, &request).await, Kept::Yes);
        assert_eq!(release(&process, &request).await, Kept::No);
    }
}

#[tokio::test]
async fn c25_a_look_leaves_the_string() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let request = Acquire { label: Some("a b\n c".into()), ..ask(&mutex("m")) };
    let token = granted(&process, &request).await;
    for _ in 0..3 {
        poll(&process, &mutex("m")).await;
        let inspection = process.callers.inspect(&request.object).await.unwrap();
        assert_eq!(
            (inspection.holders[0].ticket, inspection.holders[0].token),
            (Some(request.ticket), Some(token))
        );
        assert_eq!(inspection.holders[0].label.as_deref(), Some("a b\n c"));
        assert_eq!(kind(&fixture).await, "string");
    }
    assert_eq!(release(&process, &request).await, Kept::Yes);
    // The polls told that the process is alive.
    let left = fixture.keys().await.into_iter().filter(|key| !key.ends_with("}:live"));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
}

/// When the record of the mutex expires, in ms of the server's clock.
async fn end(fixture: &Fixture) -> i64 {
    let (key, _) = record(fixture).await;
    redis::cmd("PEXPIRETIME").arg(&key).query_async(&mut fixture.raw().await).await.unwrap()
}

#[tokio::test]
async fn c8_however_often_it_is_looked_at_the_string_ends_when_its_lease_does() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let request = ask(&mutex("m"));
    granted(&process, &request).await;
    let before = end(&fixture).await;
    for _ in 0..200 {
        process.callers.inspect(&request.object).await.unwrap();
        release(&process, &ask(&mutex("m"))).await;
    }
    let after = end(&fixture).await;
    assert_eq!(after, before);
    assert_eq!(kind(&fixture).await, "string");
}

#[tokio::test]
async fn c8_a_renewal_leaves_the_string_and_gives_it_the_new_lease() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let request = Acquire { lease: ttl(60_000), ..ask(&mutex("m")) };
    granted(&process, &request).await;
    for lease in [600_000, 30_000, 900_000] {
        assert_eq!(renew(&process, &Acquire { lease: ttl(lease), ..request.clone() }).await, Kept::Yes);
        let (key, kind) = record(&fixture).await;
        let left: u64 = fixture.raw().await.pttl(key).await.unwrap();
        assert!(left <= lease && left > lease - 20_000, "{left} ms of {lease}");
        assert_eq!(kind, "string");
        // A refused caller looks whether the lease can be that long.
        let tried = Acquire { queue: false, ..ask(&mutex("m")) };
        assert!(matches!(acquire(&process, &tried).await, Acquired::Waiting { .. }));
        let (key, _) = record(&fixture).await;
        let kept: u64 = fixture.raw().await.pttl(key).await.unwrap();
        assert!(kept <= left && kept > lease - 20_000, "{kept} ms of {lease}");
    }
    let other = ask(&mutex("m"));
    assert_eq!(renew(&process, &other).await, Kept::No, "of another ticket");
}

#[tokio::test]
async fn c25_whoever_makes_the_record_sets_its_expiry() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let request = ask(&mutex("m"));
    granted(&process, &request).await;
    waits(&process, &ask(&mutex("m"))).await;
    assert_eq!(kind(&fixture).await, "hash");
    for key in fixture.keys().await {
        let left: i64 = fixture.raw().await.pttl(&key).await.unwrap();
        assert!(left > 0, "{key} stays for ever");
    }
}

#[tokio::test]
async fn c16_a_refused_try_lock_leaves_the_string() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    granted(&process, &ask(&mutex("m"))).await;
    let tried = Acquire { queue: false, ..ask(&mutex("m")) };
    assert!(matches!(acquire(&process, &tried).await, Acquired::Waiting { .. }));
    assert_eq!(kind(&fixture).await, "string");
    // A waiter needs the record, and from then on `try_lock` stands behind it.
    waits(&process, &ask(&mutex("m"))).await;
    assert_eq!(kind(&fixture).await, "hash");
    assert!(matches!(acquire(&process, &tried).await, Acquired::Waiting { .. }));
}

/// Makes the mutex busy: a waiter gets it from a holder. Returns its request and its token.
async fn handed_over(process: &Process) -> (Acquire, FencingToken) {
    let (first, second) = (ask(&mutex("m")), ask(&mutex("m")));
    granted(process, &first).await;
    waits(process, &second).await;
    release(process, &first).await;
    let token = granted(process, &second).await;
    (second, token)
}

#[tokio::test]
async fn c25_after_a_quiet_second_a_busy_mutex_is_a_string_again() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let (second, token) = handed_over(&process).await;
    sleep(Duration::from_millis(1_100)).await;
    assert_eq!(renew(&process, &second).await, Kept::Yes);
    assert_eq!((kind(&fixture).await.as_str(), inspect_token(&process).await), ("string", Some(token.get())));
    release(&process, &second).await;
    assert_eq!(kind(&fixture).await, "none");
}

async fn inspect_token(process: &Process) -> Option<u64> {
    let inspection = process.callers.inspect(&mutex("m")).await.unwrap();
    inspection.holders.first()?.token.map(FencingToken::get)
}

/// The last waiter of a busy mutex leaves nothing, at once.
#[tokio::test]
async fn c25_c30_a_busy_mutex_that_is_freed_has_no_key() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let (second, _) = handed_over(&process).await;
    release(&process, &second).await;
    assert_eq!(kind(&fixture).await, "none");
    // A tombstone stays as long as a late copy may come.
    let cancelled = ask(&mutex("m"));
    cancel(&process, &cancelled).await;
    assert_eq!(kind(&fixture).await, "hash");
    assert_eq!(acquire(&process, &cancelled).await, Acquired::Cancelled);
    let third = ask(&mutex("m"));
    granted(&process, &third).await;
    release(&process, &third).await;
    assert_eq!(acquire(&process, &cancelled).await, Acquired::Cancelled);
}

/// The clock of a server was ahead for a moment. What was granted then ends with its lease all the
/// same.
#[tokio::test]
async fn c7_a_hold_of_a_clock_that_was_ahead_ends_with_its_lease() {
    let clock = Clock::new().unwrap();
    let (_server, fixture) = start(RedisOptions::default().clock(&clock));
    let process = fixture.process().await;
    let (lease, ahead) = (ttl(1_000), Duration::from_secs(10 * 365 * 24 * 3_600));
    let of = |object: Object| Acquire { lease, ..ask(&object) };
    let group = wait_group("g");
    clock.forward(ahead).unwrap();
    let mut asked = Vec::new();
    for object in [mutex("waited for"), mutex("tried"), semaphore("s")] {
        let last = granted(&process, &of(object.clone())).await;
        asked.push((last, Acquire { queue: object.name.as_str() == "waited for", ..of(object) }));
    }
    asked.push(contended(&process, "hash", lease).await);
    granted(&process, &Acquire { lease, ..members(&group, 3) }).await;
    clock.back(ahead).unwrap();
    // Not ten years.
    let end = Instant::now() + Duration::from_secs(20);
    for (last, request) in asked {
        loop {
            match acquire(&process, &request).await {
                Acquired::Granted { token, .. } => break assert!(token > last, "{request:?}"),
                other => assert!(Instant::now() < end, "{request:?}: {other:?}"),
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
    while look(&process, &group, None).await.count > 0 {
        assert!(Instant::now() < end, "the members stay");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn c19_what_somebody_else_keeps_there_stays() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    granted(&process, &ask(&mutex("m"))).await;
    let (key, _) = record(&fixture).await;
    let mut raw = fixture.raw().await;
    let ticket = Ticket::random();
    for value in
        ["", "mine", "1 2 3 4", &format!("{ticket}"), &format!("{ticket} a b c"), "=0000000000000001 2"]
    {
        let _: () = raw.set(&key, value).await.unwrap();
        for queue in [true, false] {
            let request = Acquire { queue, ..ask(&mutex("m")) };
            let error = process.callers.acquire(&[request]).await.remove(0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{value}: {error}");
            assert!(error.to_string().contains(&key), "{error}");
        }
        let kept: String = raw.get(&key).await.unwrap();
        assert_eq!(kept, value);
    }
    let _: () = raw.del(&key).await.unwrap();
    let _: () = raw.rpush(&key, "mine").await.unwrap();
    let error = process.callers.acquire(&[ask(&mutex("m"))]).await.remove(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}
