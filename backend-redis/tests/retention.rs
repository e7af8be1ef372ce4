//! What is left of a name that nobody uses, and for how long.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

mod harness;

use std::time::Duration;

use harness::*;
use redis::AsyncCommands;
use stanchion_core::engine::steps::{Acquire, Acquired, Kept, PermitSteps, Renew};
use tokio::time::{Instant, sleep};

#[tokio::test]
async fn c25_an_idle_name_leaves_nothing() {
    let bed = Bed::shared();
    let retention = Duration::from_secs(1);
    let process = bed.builder().retention(retention, retention).steps().await.unwrap();
    for object in [mutex("m"), semaphore("s")] {
        let (held, waiter) =
            (Acquire { lease: ttl(500), ..ask(&object) }, Acquire { lease: ttl(500), ..ask(&object) });
        granted(&process, &held).await;
        waits(&process, &waiter).await;
        poll(&process, &object).await;
        assert_eq!(release(&process, &held).await, Kept::Yes);
        granted(&process, &waiter).await;
        cancel(&process, &ask(&object)).await;
        cancel(&process, &waiter).await;
    }
    // A hold and a waiter that nobody ends, and a tombstone: the lease counts before the retention.
    let abandoned = mutex("abandoned");
    granted(&process, &Acquire { lease: ttl(500), ..ask(&abandoned) }).await;
    waits(&process, &Acquire { lease: ttl(500), ..ask(&abandoned) }).await;
    cancel(&process, &Acquire { lease: ttl(500), ..ask(&abandoned) }).await;
    assert!(!bed.keys().await.is_empty());
    let mut raw = bed.raw().await;
    for key in bed.keys().await {
        let left: i64 = redis::cmd("PTTL").arg(&key).query_async(&mut raw).await.unwrap();
        assert!(left > 0, "{key} has no expiry");
        let bound = if key.contains(":box:") { 10_000 } else { 34_000 };
        assert!(left <= bound, "{key} expires in {left} ms");
    }
    // The tombstone with the default lease of 30 s aside, whose record stays as long.
    sleep(Duration::from_millis(2_000)).await;
    let left: Vec<_> = bed.keys().await.into_iter().filter(|key| key.ends_with("abandoned")).collect();
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test]
async fn c25_a_used_name_keeps_its_token_and_an_idle_one_forgets_its_limit() {
    let bed = Bed::shared();
    let retention = (Duration::from_secs(60), Duration::from_secs(1));
    let process = bed.builder().retention(retention.0, retention.1).steps().await.unwrap();
    let object = semaphore("s");
    let first = ask_many(&object, 1, 3);
    let token = granted(&process, &first).await;
    sleep(Duration::from_millis(1_200)).await;
    let limit = |answer| match answer {
        Acquired::Granted { limit, .. } => limit,
        other => panic!("{other:?}"),
    };
    let second = ask_many(&object, 1, 5);
    assert_eq!(limit(acquire(&process, &second).await), 3, "in use");
    release(&process, &first).await;
    release(&process, &second).await;
    let third = ask_many(&object, 1, 5);
    assert_eq!(limit(acquire(&process, &third).await), 3, "idle, but not for long");
    release(&process, &third).await;
    sleep(Duration::from_millis(1_200)).await;
    assert_eq!(process.callers.inspect(&object).await.unwrap().limit, None);
    let fourth = ask_many(&object, 1, 5);
    assert_eq!(limit(acquire(&process, &fourth).await), 5);
    assert!(granted(&process, &fourth).await > token);
}

#[tokio::test]
async fn c25_an_idle_mutex_goes_however_often_it_is_looked_at() {
    const TOKENS: Duration = Duration::from_secs(2);
    let bed = Bed::shared();
    let process = bed.builder().retention(TOKENS, Duration::from_secs(1)).steps().await.unwrap();
    let (object, mut raw) = (mutex("m"), bed.raw().await);
    let request = Acquire { lease: ttl(200), ..ask(&object) };
    let token = granted(&process, &request).await;
    let held = process.callers.inspect(&object).await.unwrap();
    assert_eq!((held.holders.len(), held.holders[0].token), (1, token));
    assert_eq!(release(&process, &request).await, Kept::Yes);
    let released = Instant::now();
    let key = bed.keys().await.remove(0);
    let kind: String = redis::cmd("TYPE").arg(&key).query_async(&mut raw).await.unwrap();
    assert_eq!(kind, "string", "idle");
    let mut last = i64::MAX;
    let renew = Renew { object: object.clone(), ticket: request.ticket, lease: request.lease };
    loop {
        let left: i64 = raw.pttl(&key).await.unwrap();
        if left < 0 {
            break;
        }
        assert!(left < last, "a step that found nothing to do made it stay: {last}, then {left} ms");
        last = left;
        assert!(process.callers.inspect(&object).await.unwrap().holders.is_empty());
        assert_eq!(one(process.own.renew(std::slice::from_ref(&renew)).await), Kept::No);
        assert_eq!(release(&process, &request).await, Kept::No);
        sleep(Duration::from_millis(50)).await;
    }
    let stayed = released.elapsed();
    let most = TOKENS * 9 / 8 + request.lease.get() + Duration::from_millis(300);
    assert!(stayed >= TOKENS && stayed <= most, "{stayed:?}");
    assert_eq!(process.callers.inspect(&object).await.unwrap().limit, None);
    let left = bed.keys().await.into_iter().filter(|key| key.ends_with(":m"));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
}
