//! The keys that an idle name leaves, and how long they stay.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::time::Duration;

use crate::common::*;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use stanchion_conformance::steps::StepCalls;
use stanchion_conformance::support::eventually;
use stanchion_core::Ticket;
use stanchion_core::spi::{Acquire, Ending, Kept};
use tokio::time::{Instant, sleep};

#[tokio::test]
async fn c25_an_idle_name_leaves_nothing() {
    let fixture = Fixture::shared();
    let retention = Duration::from_secs(1);
    let process =
        driven(fixture.builder().request_timeout(PATIENT).retention(retention).steps().await.unwrap());
    // Longer than this test takes.
    let lease = ttl(5_000);
    for object in [mutex("m"), semaphore("s")] {
        let (held, waiter) = (Acquire { lease, ..ask(&object) }, Acquire { lease, ..ask(&object) });
        granted(&process, &held).await;
        waits(&process, &waiter).await;
        poll(&process, &object).await;
        assert_eq!(release(&process, &held).await, Kept::Yes);
        granted(&process, &waiter).await;
        cancel(&process, &ask(&object)).await;
        cancel(&process, &waiter).await;
    }
    // An abandoned hold, an abandoned waiter and a tombstone: the retention counts from the end of
    // the lease.
    let (_, waiter) = contended(&process, "abandoned", ttl(500)).await;
    cancel(&process, &Acquire { ticket: Ticket::random(), ..waiter }).await;
    assert!(!fixture.keys().await.is_empty());
    let mut raw = fixture.raw().await;
    for key in fixture.keys().await {
        let left: i64 = redis::cmd("PTTL").arg(&key).query_async(&mut raw).await.unwrap();
        // -2: the key has expired since.
        assert!(left > 0 || left == -2, "{key} has no expiry");
        let bound = match key {
            _ if key.contains(":box:") => 10_000,
            // The lease and nine eighths of the retention.
            _ if key.ends_with("abandoned") => 500 + 1_125,
            _ => 34_000,
        };
        assert!(left <= bound, "{key} expires in {left} ms");
    }
    // The other names have a tombstone with the default lease of 30 s, and their records stay as
    // long.
    let gone = || async { !fixture.keys().await.iter().any(|key| key.ends_with("abandoned")) };
    eventually(Duration::from_secs(10), "nothing is left", gone).await;
}

#[tokio::test]
async fn c25_an_idle_semaphore_goes_however_often_it_is_looked_at() {
    const STATE: Duration = Duration::from_secs(2);
    let fixture = Fixture::shared();
    let process = driven(fixture.builder().request_timeout(PATIENT).retention(STATE).steps().await.unwrap());
    let (object, mut raw) = (semaphore("s"), fixture.raw().await);
    let request = Acquire { lease: ttl(4_000), ..ask(&object) };
    let token = granted(&process, &request).await;
    let held = process.callers.inspect(&object).await.unwrap();
    assert_eq!((held.holders.len(), held.holders[0].token), (1, Some(token)));
    assert_eq!(release(&process, &request).await, Kept::Yes);
    let released = Instant::now();
    let key = fixture.keys().await.into_iter().find(|key| key.ends_with("}:s:s")).unwrap();
    // The lease and nine eighths of the retention, less what has passed.
    let mut last = i64::try_from((request.lease.get() + STATE * 9 / 8).as_millis()).unwrap() + 1;
    loop {
        let left: i64 = raw.pttl(&key).await.unwrap();
        if left < 0 {
            break;
        }
        assert!(left < last, "a step that found nothing to do made the key stay: {last}, then {left} ms");
        last = left;
        assert!(process.callers.inspect(&object).await.unwrap().holders.is_empty());
        assert_eq!(renew(&process, &request).await, Kept::No);
        assert_eq!(release(&process, &request).await, Kept::No);
        sleep(Duration::from_millis(50)).await;
    }
    assert!(released.elapsed() >= STATE, "{:?}", released.elapsed());
    assert_eq!(process.callers.inspect(&object).await.unwrap().limit, None);
    assert_eq!(fixture.keys().await, Vec::<String>::new());
}

#[tokio::test]
async fn c25_a_step_in_the_instant_of_a_keys_end_finds_nothing() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let (object, mut raw) = (mutex("m"), fixture.raw().await);
    let request = ask(&object);
    granted(&process, &request).await;
    let key = fixture.keys().await.remove(0);
    // The server still shows a key in the millisecond of its end.
    let _: () = raw.pexpire(&key, 1).await.unwrap();
    loop {
        let holders = process.callers.inspect(&object).await.unwrap().holders;
        let kept = release(&process, &Acquire { ticket: Ticket::random(), ..request.clone() }).await;
        assert_eq!(kept, Kept::No);
        if holders.is_empty() {
            break;
        }
    }
    assert_eq!(release(&process, &request).await, Kept::No);
    assert_eq!(fixture.keys().await, Vec::<String>::new());
}

#[tokio::test]
async fn c25_who_watches_no_more_is_forgotten() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let object = wait_group("g");
    let member = added(&process, &object).await;
    let looked = Instant::now();
    look(&process, &object, Some(0)).await;
    let mut raw = fixture.raw().await;
    let key = fixture.keys().await.into_iter().find(|key| key.contains(":wv:")).expect("a watcher");
    let ttl_of = async |raw: &mut MultiplexedConnection| -> i64 {
        redis::cmd("PTTL").arg(&key).query_async(raw).await.unwrap()
    };
    let left = ttl_of(&mut raw).await;
    assert!((1..=10_000).contains(&left), "{left} ms");
    // A look soon after the first writes nothing. A later one notes the watcher anew and removes
    // the silent watchers.
    let _: () = redis::cmd("ZADD").arg(&key).arg(1).arg("00:11").query_async(&mut raw).await.unwrap();
    let _: () = redis::cmd("PEXPIRE").arg(&key).arg(5_000).query_async(&mut raw).await.unwrap();
    look(&process, &object, Some(0)).await;
    let left = ttl_of(&mut raw).await;
    assert!(left <= 5_000 || looked.elapsed() >= Duration::from_secs(1), "{left} ms");
    sleep(Duration::from_millis(1_010)).await;
    look(&process, &object, Some(0)).await;
    assert!(ttl_of(&mut raw).await > 5_000);
    let watchers: Vec<String> =
        redis::cmd("ZRANGE").arg(&key).arg(0).arg(-1).query_async(&mut raw).await.unwrap();
    assert_eq!(watchers.len(), 1, "{watchers:?}");
    assert!(watchers[0].ends_with(&Ticket::from(1).to_string()));
    end(&process, &member, Ending::Finished).await;
}
