//! The answers of `wait`.

use std::mem::forget;
use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{ErrorKind, HoldOptions, Outcome};

use super::{client, default_group};
use crate::harness::Harness;
use crate::support::{
    AT_ONCE, BRIEF, CANCELLED, Cut, EPSILON, IDLE, POLL_FLOOR, Stopwatch, TICK, cannot_show, definite,
    drop_after, ends_at_limit, join_all, kind_of, now, pause, run_for, spawn, stays_pending, unique,
    unrenewed, within,
};

fn counted(outcome: Outcome) -> (u64, u64, u64) {
    (outcome.finished, outcome.abandoned, outcome.expired)
}

pub(crate) async fn w1_wait_returns_at_once_on_a_group_never_used(h: &dyn Harness) {
    let group = default_group(h, &unique("group")).await;
    let outcome = within(AT_ONCE, "nothing to wait for", group.wait()).await.expect("wait");
    assert_eq!(counted(outcome), (0, 0, 0));
    assert!(outcome.is_success());
    let outcome = group.wait_for(Duration::ZERO).await.expect("wait").expect("zero");
    assert_eq!(counted(outcome), (0, 0, 0));
    assert_eq!(group.count().await.expect("count"), 0);
}

pub(crate) async fn w1_wait_returns_only_at_zero(h: &dyn Harness) {
    let name = unique("group");
    let (group, other) = (default_group(h, &name).await, default_group(h, &name).await);
    let mut members = group.add_many(3).await.expect("add");
    members.push(other.add().await.expect("add"));
    assert_eq!(other.count().await.expect("count"), 4);
    let waiter = Arc::clone(&other);
    let waiting = spawn(async move { waiter.wait().await.expect("wait") });
    while let Some(member) = members.pop() {
        assert!(group.wait_for(Duration::ZERO).await.expect("wait").is_none(), "members are live");
        assert!(definite(|| other.wait_for(BRIEF)).await.expect("wait").is_none(), "members are live");
        assert!(!waiting.is_finished(), "members are live");
        member.done().await.expect("done");
        assert_eq!(other.count().await.expect("count"), members.len() as u64);
    }
    let outcome = within(POLL_FLOOR + EPSILON, "zero", waiting.join()).await;
    assert_eq!(counted(outcome), (4, 0, 0));
}

/// W3: every waiter of every client returns at zero, at once if wake-ups arrive. By polls the sum
/// would be ten times the bound, or three times with three polls a second. The time in milliseconds
/// is a target of the benchmarks.
pub(crate) async fn w3_every_waiter_returns_at_zero(h: &dyn Harness) {
    const WAITERS: usize = 20;
    const ROUNDS: u32 = 14;
    let name = unique("group");
    let groups = [default_group(h, &name).await, default_group(h, &name).await];
    let pushes = h.store().await.capabilities().wake_ups;
    let mut sum = Duration::ZERO;
    for _ in 0..if pushes { ROUNDS } else { 2 } {
        let member = groups[0].add().await.expect("add");
        let mut waiters = Vec::new();
        for number in 0..WAITERS {
            let group = Arc::clone(&groups[number % 2]);
            waiters.push(spawn(async move { group.wait().await.expect("wait") }));
        }
        pause(IDLE / 3).await;
        let watch = Stopwatch::start();
        member.done().await.expect("done");
        within(POLL_FLOOR + EPSILON, "zero", join_all(waiters)).await;
        sum += watch.elapsed();
    }
    assert!(!pushes || sum <= POLL_FLOOR * ROUNDS / 12, "pushed, not polled: {sum:?} in {ROUNDS} rounds");
}

pub(crate) async fn w4_wait_reports_how_the_members_ended(h: &dyn Harness) {
    let ttl = h.ttl();
    let name = unique("group");
    let group = default_group(h, &name).await;
    let dying = client(h, &name, None, unrenewed(ttl)).await;
    // The others are live first: a generation with the dying one alone could end before they are
    // added.
    let mut members = group.add_many(3).await.expect("add");
    let before = now();
    forget(dying.add().await.expect("add"));
    let was_late = before.elapsed() >= ttl / 3;
    let watch = Stopwatch::start();
    members.pop().expect("three").done().await.expect("done");
    members.pop().expect("two").done().await.expect("done");
    drop(members);
    let limit = (ttl + EPSILON).saturating_sub(watch.elapsed());
    let outcome = within(limit, "the dead member is noticed", group.wait()).await.expect("wait");
    assert!(now() + TICK >= before + ttl, "not before its lease ended");
    // After a late answer the call asked again, and the member of its first request expired, too.
    let expired = if was_late { outcome.expired.max(1) } else { 1 };
    assert_eq!(counted(outcome), (2, 1, expired));
    assert!(!outcome.is_success(), "not a silent success");
    let again = default_group(h, &name).await.wait().await.expect("wait");
    assert_eq!(counted(again), (2, 1, expired), "the record of zero stays");
}

/// W5: a new generation opens right at zero; waiters of the generation before do not wait for it.
pub(crate) async fn w5_waiters_are_not_caught_by_the_next_generation(h: &dyn Harness) {
    let name = unique("group");
    let (group, other) = (default_group(h, &name).await, default_group(h, &name).await);
    let mut member = group.add().await.expect("add");
    // It connects: then half a second on a machine that runs is enough for a waiter to ask.
    assert_eq!(other.count().await.expect("count"), 1);
    for round in 0..6 {
        let waiters = [&group, &other].map(|group| {
            let group = Arc::clone(group);
            spawn(async move { group.wait().await.expect("wait") })
        });
        // A waiter that asks only after the next generation has opened would wait for that one.
        run_for(BRIEF).await;
        if round % 2 == 0 {
            member.done().await.expect("done");
        } else {
            drop(member);
            within(CANCELLED, "the abandoned one", async {
                while other.count().await.expect("count") > 0 {
                    pause(Duration::from_millis(1)).await;
                }
            })
            .await;
        }
        member = group.add().await.expect("the next generation");
        for outcome in within(POLL_FLOOR + EPSILON, "the earlier waiters", join_all(waiters.into())).await {
            let expected = if round % 2 == 0 { (1, 0, 0) } else { (0, 1, 0) };
            assert_eq!(counted(outcome), expected, "of the generation that came to zero");
        }
        assert!(other.wait_for(Duration::ZERO).await.expect("wait").is_none(), "the new one is live");
    }
    member.done().await.expect("done");
}

pub(crate) async fn w6_absent_is_not_zero(h: &dyn Harness) {
    let name = unique("group");
    let (adder, told, waiting) =
        (default_group(h, &name).await, default_group(h, &name).await, default_group(h, &name).await);
    let ignorant = default_group(h, &name).await;
    assert_eq!(waiting.count().await.expect("count"), 0, "connected, and nothing seen");
    let member = adder.add().await.expect("add");
    assert_eq!(told.count().await.expect("count"), 1);
    let mut wait = Box::pin(waiting.wait());
    // A waiter that asks only after the record is gone has not seen it.
    stays_pending(BRIEF, "a member is live", &mut wait).await;
    if !h.lose_data().await {
        return cannot_show("this harness cannot lose the store's data");
    }
    for group in [&adder, &told] {
        let lost = within(POLL_FLOOR + EPSILON, "the loss is told", group.wait()).await;
        assert_eq!(kind_of(lost), Some(ErrorKind::StateLost), "whoever saw it live");
        let lost = group.wait_for(Duration::ZERO).await;
        assert_eq!(kind_of(lost), Some(ErrorKind::StateLost), "whoever saw it live");
    }
    let lost = within(POLL_FLOOR + EPSILON, "the loss is told", wait).await;
    assert_eq!(kind_of(lost), Some(ErrorKind::StateLost), "who was waiting");
    assert!(ignorant.wait().await.is_ok(), "who has not seen it cannot know");
    assert_eq!(kind_of(member.done().await), Some(ErrorKind::Lost));
}

/// W6: zero is a record of its own, also for clients that saw the group live.
pub(crate) async fn w6_zero_is_a_record(h: &dyn Harness) {
    let name = unique("group");
    let (group, other) = (default_group(h, &name).await, default_group(h, &name).await);
    let member = group.add().await.expect("add");
    assert_eq!(other.count().await.expect("count"), 1);
    member.done().await.expect("done");
    for group in [&group, &other, &default_group(h, &name).await] {
        let outcome = within(AT_ONCE, "zero is known", group.wait()).await.expect("wait");
        assert_eq!(counted(outcome), (1, 0, 0));
        assert_eq!(group.count().await.expect("count"), 0);
    }
}

/// C4: a dropped wait changes nothing, at whatever poll it is dropped.
pub(crate) async fn c4_dropped_wait_changes_nothing(h: &dyn Harness) {
    let name = unique("group");
    let (group, other) = (default_group(h, &name).await, default_group(h, &name).await);
    let member = group.add().await.expect("add");
    for polls in 0..24 {
        let cut = drop_after(polls, other.wait()).await;
        assert!(!matches!(cut, Cut::Ended(_)), "a member is live");
        assert_eq!(group.count().await.expect("count"), 1);
        if matches!(cut, Cut::Waiting) {
            break;
        }
    }
    let mut waiting = Box::pin(other.wait());
    stays_pending(IDLE, "a member is live", &mut waiting).await;
    member.done().await.expect("done");
    within(POLL_FLOOR + EPSILON, "zero", waiting).await.expect("wait");
    let state = group.inspect().await.expect("inspect");
    assert!(state.holders.is_empty() && state.waiters == 0, "{state:?}");
}

pub(crate) async fn c17_a_wait_keeps_its_limit(h: &dyn Harness) {
    let group = default_group(h, &unique("group")).await;
    let member = group.add().await.expect("add");
    for limit in [Duration::ZERO, Duration::from_micros(1), BRIEF, POLL_FLOOR + IDLE] {
        // So short a limit can end before a busy store answers.
        ends_at_limit(limit, limit < BRIEF, "a member is live", || group.wait_for(limit)).await;
    }
    let mut waiting = Box::pin(group.wait_for(Duration::MAX));
    stays_pending(IDLE, "a huge limit waits", &mut waiting).await;
    member.done().await.expect("done");
    assert!(within(POLL_FLOOR + EPSILON, "zero", waiting).await.expect("wait").is_some());
}

/// C12: closing ends waits and abandons the members; other clients see them as abandoned.
pub(crate) async fn c12_close_abandons_the_members(h: &dyn Harness) {
    let name = unique("group");
    let store = h.store().await;
    let options = stanchion_core::WaitGroupOptions::default();
    let group = store.wait_group(&name, options).expect("a wait group");
    let member = group.add().await.expect("add");
    let waiter = Arc::clone(&group);
    let waiting = spawn(async move { waiter.wait().await });
    pause(IDLE).await;
    within(POLL_FLOOR * 5, "close drains", store.close()).await.expect("close");
    assert!(!member.is_held());
    let ended = within(AT_ONCE, "waiting calls end", waiting.join()).await;
    assert_eq!(kind_of(ended), Some(ErrorKind::Closed));
    assert_eq!(kind_of(group.add().await), Some(ErrorKind::Closed));
    assert_eq!(kind_of(group.wait().await), Some(ErrorKind::Closed));
    let other = client(h, &name, None, HoldOptions::default()).await;
    let outcome = within(AT_ONCE, "released by close", other.wait()).await.expect("wait");
    assert_eq!(counted(outcome), (0, 1, 0));
}
