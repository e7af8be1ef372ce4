//! How long a holder may believe.

use std::time::Duration;

use stanchion_core::{ErrorKind, HoldOptions};

use super::super::lock_fixture::{LockFixture, LockKind};
use crate::harness::Harness;
use crate::support::{
    TICK, belief, block, eventually, leased, long_ttl, now, on_another_runtime, pause_until, unrenewed,
};

/// C10: `D` counts from before the request was sent, by the formula of the contract.
pub(crate) async fn c10_the_deadline_counts_from_the_sending(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    for ttl in [h.ttl(), h.ttl() * 3, Duration::from_secs(60), Duration::from_secs(24 * 60 * 60)] {
        let ttl = fixture.lease(ttl);
        let lock = fixture.client(unrenewed(ttl)).await;
        let before = now();
        // The first call of a fresh client connects, within a third of the lease: if that was too
        // short, it asks again.
        let guard = lock.lock().await.expect("lock");
        let after = now();
        let deadline = guard.deadline();
        assert!(
            before + belief(ttl) <= deadline,
            "of {ttl:?}: too early by {:?}",
            before + belief(ttl) - deadline
        );
        assert!(
            deadline <= after + belief(ttl),
            "of {ttl:?}: too late by {:?}",
            deadline - after - belief(ttl)
        );
        if let Err(error) = guard.release().await {
            // On a machine that stood still the release can come after the lease; then its error
            // says so.
            assert!(error.kind() == ErrorKind::Lost && now() >= deadline, "release: {error:?}");
        }
    }
}

/// C10: `is_held` becomes false exactly at `D`, neither earlier nor later.
pub(crate) async fn c10_is_held_ends_at_the_deadline_exactly(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let guard = fixture.client(unrenewed(h.ttl())).await.lock().await.expect("lock");
    let deadline = guard.deadline();
    let (mut seen_held, mut first) = (false, None);
    loop {
        let before = now();
        let held = guard.is_held();
        let after = now();
        first = first.or(Some(after));
        assert!(!held || before < deadline, "held {:?} after D", before - deadline);
        assert!(held || after >= deadline, "not held {:?} before D", deadline - after);
        seen_held |= held;
        if before > deadline + Duration::from_millis(20) {
            break;
        }
        if before + TICK < deadline {
            pause_until(now() + Duration::from_millis(1)).await;
        }
    }
    assert!(seen_held || first >= Some(deadline), "it was held before");
}

/// C10: a holder whose thread was blocked past `D` no longer believes when it runs again.
pub(crate) async fn c10_a_holder_that_stood_still_does_not_believe(h: &dyn Harness, kind: LockKind) {
    let ttl = h.ttl();
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(unrenewed(ttl)).await;
    let guard = lock.lock().await.expect("lock");
    assert!(guard.is_held() || now() >= guard.deadline());
    block(belief(ttl));
    assert!(!guard.is_held(), "asked without an await in between");
    assert!(guard.run(async {}).await.is_err(), "nothing runs after D");
}

/// C13: renewal moves `D`, by at most a lease each time.
pub(crate) async fn c13_renewal_moves_the_deadline(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let ttl = fixture.lease(long_ttl(h));
    let guard = fixture.client(leased(ttl)).await.lock().await.expect("lock");
    let by_process = fixture.is_kept_by_process();
    let mut last = guard.renewed_deadline();
    for _ in 0..3 {
        assert_eq!(last.is_none(), by_process, "a lease has an end unless the process keeps the hold");
        eventually(ttl * 2 / 3, "renewed in two thirds of a lease", || async {
            guard.renewed_deadline() > last || by_process
        })
        .await;
        let deadline = guard.renewed_deadline();
        assert!(deadline <= Some(now() + belief(ttl)), "never more than a lease ahead");
        assert!(guard.is_held());
        last = deadline;
    }
}

/// C13: a task that blocks the only worker of its runtime does not lose its hold.
pub(crate) async fn c13_a_blocked_worker_keeps_its_hold(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let ttl = fixture.lease(long_ttl(h));
    let other = fixture.client(HoldOptions::default()).await;
    on_another_runtime(|runtime| {
        runtime.drive(async {
            let lock = fixture.client(leased(ttl)).await;
            let guard = lock.lock().await.expect("lock");
            for _ in 0..2 {
                block(ttl);
                assert!(guard.is_held(), "held while the worker was blocked");
                assert!(lock.try_lock().await.expect("a definite answer").is_none());
            }
            guard.release().await.expect("it was held all the time");
        });
    });
    let guard = other.try_lock().await.expect("a definite answer").expect("released");
    guard.release().await.expect("release");
}
