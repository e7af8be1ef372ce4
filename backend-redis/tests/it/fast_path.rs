//! Mutexes without waiters are kept as strings. A step that needs more turns the string into a hash.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::time::Duration;

use crate::common::*;
use redis::AsyncCommands;
use stanchion_core::ErrorKind;
use stanchion_core::steps::{Acquire, Acquired, Kept};
use tokio::time::sleep;

/// Returns the key and the type of the one mutex of a namespace.
async fn record(fixture: &Fixture) -> (String, String) {
    let keys = fixture.keys().await;
    let key = keys.into_iter().find(|key| key.contains("}:m:")).unwrap();
    let kind = redis::cmd("TYPE").arg(&key).query_async(&mut fixture.raw().await).await.unwrap();
    (key, kind)
}

async fn kind(fixture: &Fixture) -> String {
    record(fixture).await.1
}

#[tokio::test]
async fn c25_a_free_and_a_held_mutex_are_one_string_each() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let request = ask(&mutex("m"));
    granted(&process, &request).await;
    assert_eq!((kind(&fixture).await.as_str(), fixture.keys().await.len()), ("string", 1));
    assert_eq!(release(&process, &request).await, Kept::Yes);
    assert_eq!((kind(&fixture).await.as_str(), fixture.keys().await.len()), ("string", 1));
    let (key, _) = record(&fixture).await;
    let left: i64 = fixture.raw().await.pttl(key).await.unwrap();
    let day = 24 * 60 * 60 * 1000;
    assert!((day..day * 5 / 4).contains(&left), "{left} ms");
}

#[tokio::test]
async fn m2_the_token_grows_through_both_forms() {
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
            assert_eq!((inspection.holders.len(), kind(&fixture).await.as_str()), (1, "hash"));
            assert_eq!(inspection.holders[0].token, token);
        }
        if round % 5 == 0 {
            assert_eq!(renew(&process, &request).await, Kept::Yes);
        }
        assert_eq!(release(&process, &request).await, Kept::Yes);
        assert_eq!(release(&process, &request).await, Kept::No);
    }
    assert_eq!(kind(&fixture).await, "string");
}

#[tokio::test]
async fn c25_whoever_makes_the_record_sets_its_expiry() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let request = ask(&mutex("m"));
    granted(&process, &request).await;
    poll(&process, &mutex("m")).await;
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

#[tokio::test]
async fn c25_after_a_quiet_second_a_busy_mutex_is_a_string_again() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let (first, second) = (ask(&mutex("m")), ask(&mutex("m")));
    granted(&process, &first).await;
    waits(&process, &second).await;
    release(&process, &first).await;
    let token = granted(&process, &second).await;
    release(&process, &second).await;
    assert_eq!(kind(&fixture).await, "hash", "a waiter queued just now");
    sleep(Duration::from_millis(1_100)).await;
    let third = ask(&mutex("m"));
    assert!(granted(&process, &third).await > token);
    release(&process, &third).await;
    assert_eq!(kind(&fixture).await, "string");
}

#[tokio::test]
async fn c19_what_somebody_else_keeps_there_stays() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    granted(&process, &ask(&mutex("m"))).await;
    let (key, _) = record(&fixture).await;
    let mut raw = fixture.raw().await;
    for value in ["", "=", "=1 2", "mine", "=abcdefghijklmnop qrstuvwxyz123456"] {
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
