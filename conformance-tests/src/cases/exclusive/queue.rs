//! Waiting: order, hand-over, time limits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use stanchion_core::{ErrorKind, HoldOptions};

use super::super::lock_fixture::{Lock, LockFixture, LockKind};
use crate::harness::Harness;
use crate::support::{
    AT_ONCE, BRIEF, CANCELLED, EPSILON, IDLE, POLL_FLOOR, Stopwatch, assert_stood_still, cannot_show,
    ends_at_limit, join_all, kind_of, now, pause, spawn, stays_pending, within,
};

/// Returns the total time of `count` hand-overs. Each is measured from the call of a release to the
/// grant of the waiter, and goes from one client to the other.
async fn hand_overs(locks: [&Lock; 2], count: usize) -> Duration {
    let mut sum = Duration::ZERO;
    for round in 0..count {
        let (holder, next) = (locks[round % 2], locks[(round + 1) % 2].clone());
        let guard = holder.lock().await.expect("lock");
        let waiting = spawn(async move { next.lock().await.expect("lock") });
        holder.queue_of(1).await;
        // A process that has just begun to wait polls soon. After this pause, the next poll is a
        // whole interval away.
        pause(IDLE).await;
        let watch = Stopwatch::start();
        guard.release().await.expect("release");
        let guard = within(POLL_FLOOR + EPSILON, "the next waiter runs", waiting.join()).await;
        sum += watch.elapsed();
        guard.release().await.expect("release");
    }
    sum
}

/// C14: a waiter is woken by a push if the store has wake-ups, and by the poll floor at the latest.
/// Polls would take nearly the whole floor each time; even with three polls a second, the sum would
/// be twice the bound.
pub(crate) async fn c14_a_release_wakes_the_next_waiter(h: &dyn Harness, kind: LockKind) {
    const COUNT: u32 = 24;
    let fixture = LockFixture::new(h, kind).await;
    let locks = [fixture.client(HoldOptions::default()).await, fixture.client(HoldOptions::default()).await];
    let sum = hand_overs([&locks[0], &locks[1]], COUNT as usize).await;
    if h.store().await.capabilities().wake_ups {
        assert!(sum <= POLL_FLOOR * COUNT / 8, "pushed, not polled: {sum:?} for {COUNT}");
    }
}

/// M6: a whole queue advances from release to release. By polls, each of the two clients would be
/// granted once in a poll floor: six times the bound, or twice the bound with three polls a second.
/// The time of a hand-over in milliseconds is a target of the benchmarks.
pub(crate) async fn m6_the_next_waiter_runs_at_the_release(h: &dyn Harness, kind: LockKind) {
    const WAITERS: u32 = 40;
    let fixture = LockFixture::new(h, kind).await;
    if !h.store().await.capabilities().wake_ups {
        return cannot_show("the store declares no wake-ups");
    }
    let clients =
        [fixture.client(HoldOptions::default()).await, fixture.client(HoldOptions::default()).await];
    let held = clients[0].lock().await.expect("lock");
    let mut waiters = Vec::new();
    for number in 0..WAITERS as usize {
        let client = number % 2;
        let waiter = clients[client].clone();
        waiters.push(spawn(async move {
            waiter.lock().await.expect("lock").release().await.expect("release");
        }));
        clients[client].queue_of(number as u64 + 1).await;
    }
    let watch = Stopwatch::start();
    held.release().await.expect("release");
    within(POLL_FLOOR * WAITERS, "the next waiters run", join_all(waiters)).await;
    let took = watch.elapsed_in(WAITERS);
    assert!(took <= POLL_FLOOR * WAITERS / 12, "at the releases, not by polls: {took:?} for {WAITERS}");
}

/// C15: all of many waiters are served. Tests that can watch the store count their cost.
pub(crate) async fn c15_many_waiters_are_all_served(h: &dyn Harness, kind: LockKind) {
    // Without wake-ups each grant may take a poll.
    let count = if h.store().await.capabilities().wake_ups { 200 } else { 24 };
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let guard = lock.lock().await.expect("lock");
    let waiters = (0..count).map(|_| {
        let lock = lock.clone();
        spawn(async move { lock.lock().await.expect("lock").release().await.expect("release") })
    });
    let waiters = waiters.collect();
    lock.queue_of(count).await;
    guard.release().await.expect("release");
    within(Duration::from_secs(20), "all waiters", join_all(waiters)).await;
    fixture.settles(&lock, None).await;
}

/// C16: waiters are granted in the order of their arrival at the store, whatever their client.
pub(crate) async fn c16_first_come_first_served(h: &dyn Harness, kind: LockKind) {
    const WAITERS: u32 = 64;
    let client_of = |number: u64| usize::from(number / 2 % 2 == 1);
    let fixture = LockFixture::new(h, kind).await;
    let clients =
        [fixture.client(HoldOptions::default()).await, fixture.client(HoldOptions::default()).await];
    let guard = clients[0].lock().await.expect("lock");
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for number in 0..u64::from(WAITERS) {
        // In pairs, so that neighbours in the queue are of the same client and of different
        // clients.
        let lock = &clients[client_of(number)];
        let waiter = lock.clone();
        let served = Arc::clone(&served);
        waiters.push(spawn(async move {
            let guard = waiter.lock().await.expect("lock");
            served.lock().expect("no panic while it is held").push(number);
            guard.release().await.expect("release");
        }));
        lock.queue_of(number + 1).await;
    }
    guard.release().await.expect("release");
    // Without wake-ups, each turn that passes to the other client waits for its poll.
    within(POLL_FLOOR * WAITERS + EPSILON, "all waiters", join_all(waiters)).await;
    let served = served.lock().expect("no panic while it is held").clone();
    assert_eq!(served, (0..u64::from(WAITERS)).collect::<Vec<_>>(), "first come, first served");
}

/// C16: a release does not grant a newcomer before the queued waiters.
pub(crate) async fn c16_try_lock_says_no_while_a_live_waiter_queues(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let holder = fixture.client(HoldOptions::default()).await;
    let newcomer = fixture.client(HoldOptions::default()).await;
    let waiter = fixture.client(HoldOptions::default()).await;
    for _ in 0..20 {
        let guard = holder.lock().await.expect("lock");
        let lock = waiter.clone();
        let waiting = spawn(async move { lock.lock().await.expect("lock") });
        newcomer.queue_of(1).await;
        guard.release().await.expect("release");
        // The waiter's guard is kept until it is joined: from here on the waiter queues or holds.
        for lock in [&holder, &newcomer] {
            assert!(lock.try_lock().await.expect("a definite answer").is_none(), "barged past the queue");
            let granted = lock.lock_for(Duration::ZERO).await.expect("a definite answer");
            assert!(granted.is_none(), "barged past the queue");
        }
        within(POLL_FLOOR + EPSILON, "the waiter's turn", waiting.join())
            .await
            .release()
            .await
            .expect("release");
    }
}

/// Locks and releases, so that the calls that follow do not have to connect.
async fn connected(lock: &Lock) {
    lock.lock().await.expect("lock").release().await.expect("release");
}

pub(crate) async fn c17_a_time_limit_is_kept(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let holder = fixture.client(HoldOptions::default()).await;
    let lock = fixture.client(HoldOptions::default()).await;
    connected(&lock).await;
    let guard = holder.lock().await.expect("lock");
    for limit in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_micros(1),
        Duration::from_micros(999),
        BRIEF,
        Duration::from_millis(1_200),
    ] {
        // So short a limit can end before the store's answer comes.
        let or_unknown = !limit.is_zero() && limit < Duration::from_millis(1);
        ends_at_limit(limit, or_unknown, "another holds", || lock.lock_for(limit)).await;
    }
    guard.release().await.expect("release");
    fixture.settles(&holder, None).await;
}

pub(crate) async fn c17_limit_zero_is_one_attempt(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let other = fixture.client(HoldOptions::default()).await;
    for lock in [&lock, &other] {
        connected(lock).await;
    }
    for _ in 0..3 {
        let guard = loop {
            let (start, watch) = (now(), Stopwatch::start());
            match within(EPSILON, "one attempt", lock.lock_for(Duration::ZERO)).await {
                Ok(granted) => break granted.expect("free"),
                Err(error) => assert_stood_still(start, &watch, &error),
            }
            // What may have been granted is undone (C3, C4).
            fixture.settles(&other, None).await;
        };
        ends_at_limit(Duration::ZERO, false, "one attempt", || other.lock_for(Duration::ZERO)).await;
        guard.release().await.expect("release");
    }
}

/// C17: the longest possible limit neither overflows nor counts as no limit.
pub(crate) async fn c17_a_huge_limit_waits(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let holder = fixture.client(HoldOptions::default()).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let guard = lock.lock_for(Duration::MAX).await.expect("a definite answer").expect("free");
    let mut waiting = Box::pin(holder.lock_for(Duration::MAX));
    stays_pending(IDLE, "the name is held", &mut waiting).await;
    guard.release().await.expect("release");
    let granted = within(POLL_FLOOR + EPSILON, "the waiter's turn", waiting).await;
    granted.expect("a definite answer").expect("released").release().await.expect("release");
}

/// C17: a grant at the end of the time limit is either returned to the caller or undone.
pub(crate) async fn c17_a_release_at_the_limit_is_not_lost(h: &dyn Harness, kind: LockKind) {
    let limit = BRIEF;
    let fixture = LockFixture::new(h, kind).await;
    let holder = fixture.client(HoldOptions::default()).await;
    let lock = fixture.client(HoldOptions::default()).await;
    for offset in [0, 100, 480, 495, 498, 499, 500, 501, 502, 505] {
        let guard = holder.lock().await.expect("lock");
        let waiter = lock.clone();
        let waiting = spawn(async move { waiter.lock_for(limit).await });
        pause(Duration::from_millis(offset)).await;
        guard.release().await.expect("release");
        match within(limit + EPSILON, "the limit", waiting.join()).await {
            Ok(Some(granted)) => granted.release().await.expect("release"),
            Ok(None) => {}
            // The answer to what it asked at its limit was late: it is undone (C3, C4).
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unknown, "{error}"),
        }
        fixture.settles(&holder, None).await;
    }
}

/// C26: the queue has a bound, and a place that becomes free can be taken again.
pub(crate) async fn c26_a_full_queue_refuses(h: &dyn Harness, kind: LockKind) {
    let mut options = HoldOptions::default();
    options.max_waiters = Some(2);
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(options.clone()).await;
    let other = fixture.client(options).await;
    let guard = lock.lock().await.expect("lock");
    let queue = |lock: &Lock| {
        let lock = lock.clone();
        spawn(async move { lock.lock().await.expect("lock").release().await.expect("release") })
    };
    let first = queue(&lock);
    lock.queue_of(1).await;
    let second = queue(&other);
    lock.queue_of(2).await;
    for lock in [&lock, &other] {
        let refused = within(AT_ONCE, "refused at once", lock.lock()).await;
        assert_eq!(kind_of(refused), Some(ErrorKind::Overloaded));
        let refused = within(AT_ONCE, "refused at once", lock.lock_for(Duration::from_secs(20))).await;
        assert_eq!(kind_of(refused), Some(ErrorKind::Overloaded));
        assert!(
            lock.try_lock().await.expect("a definite answer").is_none(),
            "who does not queue is not refused"
        );
    }
    first.cancel().await;
    within(CANCELLED, "the place is free again", lock.queue_of(1)).await;
    let joined = Stopwatch::start();
    let third = {
        let lock = lock.clone();
        spawn(async move {
            let guard = loop {
                match lock.lock().await {
                    // What the cancelled call left at the store may count as a waiter for a moment
                    // longer (C4).
                    Err(error) if error.kind() == ErrorKind::Overloaded && joined.elapsed() < CANCELLED => {}
                    locked => break locked.expect("lock"),
                }
            };
            guard.release().await.expect("release");
        })
    };
    lock.queue_of(2).await;
    guard.release().await.expect("release");
    within(POLL_FLOOR * 2 + EPSILON, "both in the queue", join_all(vec![second, third])).await;
}
