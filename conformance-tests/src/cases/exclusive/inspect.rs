//! The answers of `inspect`, and the texts of errors.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{ErrorKind, HoldOptions, Kind};

use super::super::lock_fixture::{LockFixture, LockKind};
use crate::harness::Harness;
use crate::support::{EPSILON, TICK, eventually, foreign, kind_of, now, pause, spawn, unrenewed, within};

pub(crate) async fn c23_inspect_tells_the_holder(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let ttl = fixture.lease(Duration::from_secs(20));
    let mut options = unrenewed(ttl);
    options.label = Some(Arc::from("host-7 {\"pid\": 42} \u{1f512}"));
    let lock = fixture.client(options).await;
    let mut witness = fixture.client(HoldOptions::default()).await;
    assert!(witness.inspect().await.expect("inspect").holders.is_empty(), "nobody yet");
    let before = now();
    let guard = lock.lock().await.expect("lock");
    let granted = now();
    pause(Duration::from_millis(60)).await;
    if fixture.is_kept_by_session() {
        let state = witness.inspect().await.expect("inspect");
        assert!(fixture.tells(&state, &[guard.ticket()]) && state.waiters == 0, "{state:?}");
        // With sessions, only the holder's own process knows the rest.
        witness = lock;
    }
    let asked = now();
    let state = witness.inspect().await.expect("inspect");
    let answered = now();
    assert_eq!((state.holders.len(), state.waiters), (1, 0), "{state:?}");
    let holder = &state.holders[0];
    assert_eq!(holder.ticket, Some(guard.ticket()));
    assert_eq!(holder.token, Some(guard.fencing_token()));
    assert_eq!(holder.label.as_deref(), Some("host-7 {\"pid\": 42} \u{1f512}"));
    assert_eq!(holder.weight, 1);
    let age = holder.age.expect("the age of a hold of this process");
    assert!(age + TICK >= asked - granted, "age {age:?}");
    assert!(age <= answered - before + TICK, "age {age:?}");
    let left = holder.lease_left.expect("a hold that is not renewed has a lease");
    assert!(left <= ttl && left + (answered - before) + TICK >= ttl, "lease left {left:?} of {ttl:?}");
    guard.release().await.expect("release");
    assert!(witness.inspect().await.expect("inspect").holders.is_empty(), "nobody any more");
}

pub(crate) async fn c23_inspect_counts_the_waiters(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let witness = fixture.client(HoldOptions::default()).await;
    let guard = lock.lock().await.expect("lock");
    let mut waiters = Vec::new();
    // Alternately by the witness and by the other client.
    let queue_of = async |number: u64| {
        witness.queue_of(number).await;
        lock.queue_of(number).await;
    };
    for number in 1..=5 {
        let lock = if number % 2 == 0 { lock.clone() } else { witness.clone() };
        waiters.push(spawn(async move { lock.lock().await.expect("lock") }));
        queue_of(number).await;
    }
    while let Some(waiter) = waiters.pop() {
        waiter.cancel().await;
        queue_of(waiters.len() as u64).await;
    }
    guard.release().await.expect("release");
}

pub(crate) async fn c23_expired_holds_do_not_count(h: &dyn Harness, kind: LockKind) {
    let ttl = h.ttl();
    let fixture = LockFixture::new(h, kind).await;
    let witness = fixture.client(HoldOptions::default()).await;
    // The first call of the witness connects, before the lease runs.
    assert!(witness.inspect().await.expect("inspect").holders.is_empty(), "nobody yet");
    let guard = fixture.client(unrenewed(ttl)).await.lock().await.expect("lock");
    let seen = witness.inspect().await.expect("inspect").holders.len();
    assert!(seen == 1 || now() >= guard.deadline(), "{seen} holders");
    pause(ttl + TICK).await;
    let has_none = || async { witness.inspect().await.expect("inspect").holders.is_empty() };
    if fixture.is_kept_by_session() {
        // It does not expire at the server: its process ends it.
        eventually(EPSILON, "its session is ended", has_none).await;
    } else {
        assert!(has_none().await);
    }
    drop(guard);
}

/// C21: an error has the operation, the store, the name and the cause in one line.
pub(crate) async fn c21_an_error_says_what_where_and_why(h: &dyn Harness, kind: LockKind) {
    let ttl = h.ttl();
    let fixture = LockFixture::new(h, kind).await;
    let store = h.store().await;
    let lock = fixture.open(&store, unrenewed(ttl));
    let guard = lock.lock().await.expect("lock");
    within(ttl + EPSILON, "the lease ends", guard.lost()).await;
    pause(EPSILON).await;
    let error = guard.run(async {}).await.expect_err("the hold is gone");
    assert_eq!((error.operation(), error.name()), (Some("run"), Some(fixture.name())));
    let error = guard.release().await.expect_err("the hold is gone");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(error.operation(), Some("release"));
    assert_eq!(error.store(), Some(store.capabilities().store));
    assert_eq!(error.name(), Some(fixture.name()));
    assert!(!error.is_retryable());
    let line = error.to_string();
    assert!(!line.contains('\n') && line.contains("release") && line.contains(fixture.name()), "{line}");

    let error = lock.attach(&foreign(Kind::Mutex)).await.expect_err("nothing to attach");
    assert_eq!((error.operation(), error.name()), (Some("attach"), Some(fixture.name())));
    let kind = if fixture.is_kept_by_session() { ErrorKind::Unsupported } else { ErrorKind::InvalidArgument };
    assert_eq!(kind_of::<()>(Err(error)), Some(kind));
}
