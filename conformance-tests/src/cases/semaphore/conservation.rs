//! Permits come back, each of them once.

use std::mem::forget;
use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{Error, ErrorKind, HoldOptions, Permit, Result, Semaphore};

use super::client;
use crate::harness::Harness;
use crate::support::{
    CANCELLED, EPSILON, TICK, beside, drop_after, eventually, join_all, lease_of, now, pause, run_for, spawn,
    stays_pending, unique, unrenewed, within,
};

/// Asserts that the limit, and not one permit more, can be acquired.
async fn exactly(semaphore: &dyn Semaphore, limit: u32) {
    assert_eq!(semaphore.available().await.expect("available"), limit);
    let all = semaphore.try_acquire_many(limit).await.expect("a definite answer").expect("all permits");
    assert!(semaphore.try_acquire().await.expect("a definite answer").is_none(), "one permit too many");
    all.release().await.expect("release");
    assert_eq!(semaphore.available().await.expect("available"), limit);
}

pub(crate) async fn s3_dead_holders_permits_come_back_once(h: &dyn Harness) {
    let ttl = h.ttl();
    let name = unique("semaphore");
    let dying = client(h, &name, 4, unrenewed(ttl)).await;
    let other = client(h, &name, 4, HoldOptions::default()).await;
    let before = now();
    forget(dying.acquire_many(3).await.expect("acquire"));
    let all =
        within(ttl + EPSILON, "the dead holder's permits", other.acquire_many(4)).await.expect("acquire");
    assert!(now() + TICK >= before + ttl, "not before its lease ended");
    all.release().await.expect("release");
    pause(ttl).await;
    exactly(other.as_ref(), 4).await;
}

/// S3: a dead holder's late release gives nothing back a second time.
pub(crate) async fn s3_a_late_release_gives_nothing_back_twice(h: &dyn Harness) {
    let ttl = h.ttl();
    let name = unique("semaphore");
    let late = client(h, &name, 4, unrenewed(ttl)).await.acquire_many(2).await.expect("acquire");
    let other = client(h, &name, 4, HoldOptions::default()).await;
    let all = within(ttl + EPSILON, "the lease ends", other.acquire_many(4)).await.expect("acquire");
    assert!(late.release().await.is_err());
    assert_eq!(other.available().await.expect("available"), 0);
    assert!(other.try_acquire().await.expect("a definite answer").is_none());
    all.release().await.expect("release");
    exactly(other.as_ref(), 4).await;
}

/// S4: whatever the callers do, after a lease without calls exactly the limit can be acquired.
pub(crate) async fn s4_permits_are_conserved(h: &dyn Harness) {
    const LIMIT: u32 = 5;
    let ttl = h.ttl();
    let name = unique("semaphore");
    let mut tasks = Vec::new();
    for number in 0..8_u32 {
        let lasting = client(h, &name, LIMIT, HoldOptions::default()).await;
        let dying = client(h, &name, LIMIT, unrenewed(ttl)).await;
        tasks.push(spawn(async move {
            for round in 0..16_u32 {
                campaign_step(&lasting, &dying, number + round, ttl).await;
            }
        }));
    }
    within(Duration::from_secs(45), "the campaign", join_all(tasks)).await;
    run_for(ttl + EPSILON).await;
    exactly(client(h, &name, LIMIT, HoldOptions::default()).await.as_ref(), LIMIT).await;
}

/// Returns whether the outcome of a call is unknown, or it was not executed.
fn unsure(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Unavailable)
}

/// Returns the permit, if there is one. A refusal, or an unknown outcome of a busy store (C3, C17),
/// loses no permit either.
fn answered(answer: Result<Option<Permit>>) -> Option<Permit> {
    match answer {
        Err(error) if unsure(&error) => None,
        answer => answer.expect("an answer"),
    }
}

/// Runs one random action of a caller.
async fn campaign_step(lasting: &Arc<dyn Semaphore>, dying: &Arc<dyn Semaphore>, step: u32, ttl: Duration) {
    let weight = step % 3 + 1;
    match step % 9 {
        0 => lasting.acquire_many(weight).await.expect("acquire").release().await.expect("release"),
        1 => drop(lasting.acquire_many(weight).await.expect("acquire")),
        2 | 3 => drop(drop_after(step % 4, lasting.acquire_many(weight)).await),
        4 => {
            let limit = Duration::from_micros(u64::from(step) * 211 % 3_000);
            drop(answered(lasting.acquire_many_for(weight, limit).await));
        }
        5 => {
            if let Some(permit) = answered(dying.try_acquire_many(weight).await) {
                forget(permit);
            }
        }
        6 => {
            let permit = lasting.acquire().await.expect("acquire");
            match permit.detach(lease_of(ttl)).await {
                Ok(detached) if step.is_multiple_of(2) => drop(lasting.attach(&detached).await),
                Ok(_) => {}
                // The answer of a busy store came after the short lease, or did not come in time.
                Err(error) => assert!(error.kind() == ErrorKind::Lost || unsure(&error), "detach: {error}"),
            }
        }
        7 => {
            let permit = lasting.acquire_many(weight).await.expect("acquire");
            lasting.force_release(permit.ticket()).await.expect("force");
            drop(permit);
        }
        _ => drop(tokio::time::timeout(Duration::from_micros(700), lasting.acquire_many(weight)).await),
    }
}

/// C4: several permits that are granted to a waiter while it is dropped all come back (S7 forbids
/// any other design).
pub(crate) async fn c4_s7_a_dropped_grant_of_several_comes_back(h: &dyn Harness) {
    let name = unique("semaphore");
    let holder = client(h, &name, 3, HoldOptions::default()).await;
    let other = client(h, &name, 3, HoldOptions::default()).await;
    for micros in [0, 100, 300, 1_000, 5_000] {
        let permit = holder.acquire_many(2).await.expect("acquire");
        let mut waiting = Box::pin(other.acquire_many(3));
        let queued = eventually(CANCELLED, "it queues", || async {
            holder.inspect().await.expect("inspect").waiters == 1
        });
        beside(&mut waiting, "two of three are out", queued).await;
        // No request of the waiter is in flight when it is dropped.
        stays_pending(Duration::from_millis(20), "two of three are out", &mut waiting).await;
        permit.release().await.expect("release");
        pause(Duration::from_micros(micros)).await;
        drop(waiting);
        eventually(CANCELLED, "nothing is left behind", || async {
            let state = holder.inspect().await.expect("inspect");
            state.holders.is_empty() && state.waiters == 0
        })
        .await;
        exactly(holder.as_ref(), 3).await;
    }
}
