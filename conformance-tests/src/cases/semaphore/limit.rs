//! The number of permits that are out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use stanchion_core::{ErrorKind, HoldOptions, Permit};

use super::{client, queue_of};
use crate::harness::Harness;
use crate::support::{
    AT_ONCE, EPSILON, IDLE, POLL_FLOOR, join_all, kind_of, lease_of, pause, spawn, unique, within,
};

/// S1: the holders themselves count the permits, under contention of two clients.
pub(crate) async fn s1_live_permits_never_exceed_the_limit(h: &dyn Harness) {
    const LIMIT: u32 = 4;
    let name = unique("semaphore");
    let clients = [
        client(h, &name, LIMIT, HoldOptions::default()).await,
        client(h, &name, LIMIT, HoldOptions::default()).await,
    ];
    let out = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for number in 0..10_u32 {
        let (semaphore, out) = (Arc::clone(&clients[number as usize % 2]), Arc::clone(&out));
        tasks.push(spawn(async move {
            for round in 0..20_u32 {
                let weight = (number + round) % 3 + 1;
                let permit = match round % 3 {
                    0 => semaphore.acquire_many(weight).await.expect("acquire"),
                    1 => {
                        let limit = Duration::from_secs(30);
                        let granted = semaphore.acquire_many_for(weight, limit).await.expect("acquire");
                        granted.expect("in time")
                    }
                    _ => match semaphore.try_acquire_many(weight).await.expect("a definite answer") {
                        Some(permit) => permit,
                        None => continue,
                    },
                };
                let live = out.fetch_add(weight, Ordering::SeqCst) + weight;
                assert!(live <= LIMIT, "{live} permits of {LIMIT} are out");
                assert_eq!(permit.weight(), weight);
                if round % 2 == 0 {
                    pause(Duration::from_micros(500)).await;
                } else {
                    tokio::task::yield_now().await;
                }
                assert!(permit.is_held());
                out.fetch_sub(weight, Ordering::SeqCst);
                if round % 2 == 0 { drop(permit) } else { permit.release().await.expect("release") }
            }
        }));
    }
    within(Duration::from_secs(40), "all rounds", join_all(tasks)).await;
}

/// S1: sequential acquisitions get exactly the limit.
pub(crate) async fn s1_exactly_the_limit_is_granted(h: &dyn Harness) {
    let name = unique("semaphore");
    let semaphore = client(h, &name, 7, HoldOptions::default()).await;
    let other = client(h, &name, 7, HoldOptions::default()).await;
    assert_eq!(semaphore.available().await.expect("available"), 7);
    let mut permits: Vec<Permit> = Vec::new();
    for weight in [1, 3, 2] {
        permits.push(other.try_acquire_many(weight).await.expect("a definite answer").expect("free"));
    }
    assert_eq!(semaphore.available().await.expect("available"), 1);
    assert!(semaphore.try_acquire_many(2).await.expect("a definite answer").is_none());
    permits.push(semaphore.try_acquire().await.expect("a definite answer").expect("one is free"));
    assert_eq!(other.available().await.expect("available"), 0);
    assert!(other.try_acquire().await.expect("a definite answer").is_none());
    let state = other.inspect().await.expect("inspect");
    assert_eq!(state.holders.iter().map(|holder| holder.weight).collect::<Vec<_>>(), [1, 3, 2, 1]);
    assert_eq!(state.limit, Some(7));
    permits.remove(1).release().await.expect("release");
    assert_eq!(other.available().await.expect("available"), 3);
}

/// S2: two callers that ask for two of two permits never hold one each.
pub(crate) async fn s2_two_of_two_never_deadlock(h: &dyn Harness) {
    let name = unique("semaphore");
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let semaphore = client(h, &name, 2, HoldOptions::default()).await;
        tasks.push(spawn(async move {
            for _ in 0..25 {
                let both = semaphore.acquire_many(2).await.expect("acquire");
                tokio::task::yield_now().await;
                both.release().await.expect("release");
            }
        }));
    }
    within(Duration::from_secs(30), "nobody waits for ever", join_all(tasks)).await;
}

pub(crate) async fn s2_a_waiting_request_holds_nothing(h: &dyn Harness) {
    let name = unique("semaphore");
    let semaphore = client(h, &name, 3, HoldOptions::default()).await;
    let other = client(h, &name, 3, HoldOptions::default()).await;
    let one = semaphore.acquire().await.expect("acquire");
    let waiter = Arc::clone(&other);
    let waiting = spawn(async move { waiter.acquire_many(3).await.expect("acquire") });
    queue_of(semaphore.as_ref(), 1).await;
    let state = semaphore.inspect().await.expect("inspect");
    assert_eq!(state.holders.iter().map(|holder| holder.weight).collect::<Vec<_>>(), [1], "all or nothing");
    one.release().await.expect("release");
    let all = within(POLL_FLOOR + EPSILON, "the whole request", waiting.join()).await;
    assert_eq!(all.weight(), 3);
    assert_eq!(semaphore.available().await.expect("available"), 0);
    all.release().await.expect("release");
}

pub(crate) async fn s2_more_than_the_limit_is_refused_at_once(h: &dyn Harness) {
    let name = unique("semaphore");
    let semaphore = client(h, &name, 3, HoldOptions::default()).await;
    for held in [false, true] {
        let permit = if held { Some(semaphore.acquire().await.expect("acquire")) } else { None };
        let refused = within(AT_ONCE, "refused at once", semaphore.acquire_many(4)).await;
        assert_eq!(kind_of(refused), Some(ErrorKind::InvalidArgument));
        assert_eq!(kind_of(semaphore.try_acquire_many(4).await), Some(ErrorKind::InvalidArgument));
        let refused = within(AT_ONCE, "refused at once", semaphore.acquire_many_for(4, IDLE * 20)).await;
        assert_eq!(kind_of(refused), Some(ErrorKind::InvalidArgument));
        drop(permit);
    }
}

pub(crate) async fn s6_resize_up_wakes_waiters(h: &dyn Harness) {
    let name = unique("semaphore");
    let semaphore = client(h, &name, 1, HoldOptions::default()).await;
    let other = client(h, &name, 1, HoldOptions::default()).await;
    let held = semaphore.acquire().await.expect("acquire");
    let mut waiters = Vec::new();
    for number in 1..=2 {
        let waiter = Arc::clone(&other);
        waiters.push(spawn(async move { waiter.acquire().await.expect("acquire") }));
        queue_of(semaphore.as_ref(), number).await;
    }
    semaphore.resize(3).await.expect("resize");
    let granted = within(POLL_FLOOR + EPSILON, "both waiters", join_all(waiters)).await;
    assert_eq!(other.available().await.expect("available"), 0);
    assert_eq!(other.inspect().await.expect("inspect").limit, Some(3));
    assert!(held.is_held() && granted.iter().all(Permit::is_held));
}

pub(crate) async fn s6_resize_down_revokes_nobody(h: &dyn Harness) {
    let name = unique("semaphore");
    let semaphore = client(h, &name, 3, HoldOptions::default()).await;
    let other = client(h, &name, 3, HoldOptions::default()).await;
    let mut permits = Vec::new();
    for _ in 0..3 {
        permits.push(semaphore.acquire().await.expect("acquire"));
    }
    other.resize(1).await.expect("resize");
    assert!(permits.iter().all(Permit::is_held), "nobody is revoked");
    assert_eq!(semaphore.inspect().await.expect("inspect").holders.len(), 3);
    assert_eq!(semaphore.available().await.expect("available"), 0, "not below zero");
    let waiter = Arc::clone(&other);
    let waiting = spawn(async move { waiter.acquire().await.expect("acquire") });
    queue_of(semaphore.as_ref(), 1).await;
    for left in [2, 1] {
        permits.pop().expect("three").release().await.expect("release");
        assert!(other.try_acquire().await.expect("a definite answer").is_none());
        pause(IDLE).await;
        assert!(!waiting.is_finished(), "granted while {left} of a limit of 1 are out");
    }
    permits.pop().expect("the last one").release().await.expect("release");
    within(POLL_FLOOR + EPSILON, "enough came back", waiting.join()).await.release().await.expect("release");
    assert_eq!(semaphore.available().await.expect("available"), 1);
}

/// S8: a permit has everything that a guard has.
pub(crate) async fn s8_permits_of_one_semaphore_have_their_own_tokens(h: &dyn Harness) {
    let name = unique("semaphore");
    let semaphore = client(h, &name, 5, HoldOptions::default()).await;
    let mut tokens = Vec::new();
    let mut permits = Vec::new();
    for _ in 0..5 {
        let permit = semaphore.acquire().await.expect("acquire");
        tokens.push(permit.fencing_token());
        permits.push(permit);
    }
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
    let victim = permits.swap_remove(2);
    assert!(semaphore.force_release(victim.ticket()).await.expect("force"));
    assert!(permits.iter().all(Permit::is_held), "the others are not touched");
    assert_eq!(semaphore.available().await.expect("available"), 1);
    assert_eq!(kind_of(victim.release().await), Some(ErrorKind::Lost));
    assert_eq!(semaphore.available().await.expect("available"), 1, "freed once");
}

/// C24: a hold of several permits is transferred as one.
pub(crate) async fn c24_s8_attach_keeps_the_weight(h: &dyn Harness) {
    let name = unique("semaphore");
    let semaphore = client(h, &name, 5, HoldOptions::default()).await;
    let other = client(h, &name, 5, HoldOptions::default()).await;
    let permit = semaphore.acquire_many(3).await.expect("acquire");
    let detached = permit.detach(lease_of(Duration::from_secs(20))).await.expect("detach");
    assert_eq!(other.available().await.expect("available"), 2, "detached permits are still out");
    let attached = other.attach(&detached).await.expect("attach");
    assert_eq!(attached.weight(), 3);
    assert_eq!(other.available().await.expect("available"), 2);
    attached.release().await.expect("release");
    assert_eq!(semaphore.available().await.expect("available"), 5);
}
