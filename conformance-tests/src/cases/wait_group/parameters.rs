//! The member limit: waiting to add, and the limit as a parameter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use stanchion_core::{ErrorKind, HoldOptions, OnMismatch, WaitGroup, WaitGroupOptions};

use super::{client, queue_of};
use crate::harness::Harness;
use crate::support::{
    AT_ONCE, BRIEF, CANCELLED, Cut, EPSILON, IDLE, POLL_FLOOR, definite, drop_after, ends_at_limit,
    eventually, join_all, kind_of, pause, spawn, unique, unrenewed, within,
};

async fn limited(h: &dyn Harness, name: &str, limit: u32) -> Arc<dyn WaitGroup> {
    client(h, name, Some(limit), HoldOptions::default()).await
}

pub(crate) async fn w7_add_waits_at_the_limit(h: &dyn Harness) {
    let name = unique("group");
    let (group, other) = (limited(h, &name, 2).await, limited(h, &name, 2).await);
    let mut members = group.add_many(2).await.expect("add");
    // It connects first.
    assert_eq!(other.count().await.expect("count"), 2);
    for limit in [Duration::ZERO, Duration::from_micros(1), BRIEF] {
        // So short a limit can end before a busy store answers.
        ends_at_limit(limit, limit < BRIEF, "two of two are live", || other.add_for(limit)).await;
    }
    queue_of(group.as_ref(), 0).await;
    let waiter = Arc::clone(&other);
    let waiting = spawn(async move { waiter.add().await.expect("add") });
    queue_of(group.as_ref(), 1).await;
    assert_eq!(group.count().await.expect("count"), 2, "who waits is no member");
    members.pop().expect("two").done().await.expect("done");
    let added = within(POLL_FLOOR + EPSILON, "a place is free", waiting.join()).await;
    assert_eq!(group.count().await.expect("count"), 2);
    added.done().await.expect("done");
    let added = group.add_for(Duration::ZERO).await.expect("a definite answer").expect("a place is free");
    drop((added, members));
}

pub(crate) async fn w7_the_limit_is_never_exceeded(h: &dyn Harness) {
    const LIMIT: u32 = 3;
    let name = unique("group");
    let groups = [limited(h, &name, LIMIT).await, limited(h, &name, LIMIT).await];
    let live = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for number in 0..8_u32 {
        let (group, live) = (Arc::clone(&groups[number as usize % 2]), Arc::clone(&live));
        tasks.push(spawn(async move {
            for round in 0..12_u32 {
                let count = (number + round) % 3 + 1;
                let members = group.add_many(count).await.expect("add");
                let now_live = live.fetch_add(count, Ordering::SeqCst) + count;
                assert!(now_live <= LIMIT, "{now_live} members of {LIMIT}");
                pause(Duration::from_micros(300)).await;
                for member in members {
                    live.fetch_sub(1, Ordering::SeqCst);
                    if round % 2 == 0 { drop(member) } else { member.done().await.expect("done") }
                }
            }
        }));
    }
    within(Duration::from_secs(40), "all rounds", join_all(tasks)).await;
}

/// W7, S2: adding several members is one decision.
pub(crate) async fn w7_s2_add_many_is_all_or_nothing(h: &dyn Harness) {
    let name = unique("group");
    let (group, other) = (limited(h, &name, 3).await, limited(h, &name, 3).await);
    assert_eq!(kind_of(group.add_many(4).await), Some(ErrorKind::InvalidArgument), "never possible");
    let one = group.add().await.expect("add");
    let waiter = Arc::clone(&other);
    let waiting = spawn(async move { waiter.add_many(3).await.expect("add") });
    queue_of(group.as_ref(), 1).await;
    assert_eq!(group.count().await.expect("count"), 1, "all or nothing");
    assert!(
        definite(|| group.add_for(BRIEF)).await.expect("a definite answer").is_none(),
        "nobody passes the queue"
    );
    one.done().await.expect("done");
    let three = within(POLL_FLOOR + EPSILON, "all three", waiting.join()).await;
    assert_eq!(three.len(), 3);
    assert_eq!(group.count().await.expect("count"), 3);
}

/// C16: adds are granted in the order of their arrival, across clients.
pub(crate) async fn c16_w7_adds_are_served_first_come_first_served(h: &dyn Harness) {
    const WAITERS: u64 = 12;
    let name = unique("group");
    let groups = [limited(h, &name, 1).await, limited(h, &name, 1).await];
    let member = groups[0].add().await.expect("add");
    let served = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for number in 0..WAITERS {
        let group = Arc::clone(&groups[usize::from(number % 3 == 0)]);
        let served = Arc::clone(&served);
        waiters.push(spawn(async move {
            let member = group.add().await.expect("add");
            served.lock().expect("no panic while it is held").push(number);
            member.done().await.expect("done");
        }));
        queue_of(groups[0].as_ref(), number + 1).await;
    }
    member.done().await.expect("done");
    within(POLL_FLOOR * 10, "all waiters", join_all(waiters)).await;
    let served = served.lock().expect("no panic while it is held");
    assert_eq!(*served, (0..WAITERS).collect::<Vec<_>>());
}

/// C4: a queued add that is dropped leaves the queue.
pub(crate) async fn c4_w7_a_dropped_add_leaves_the_queue(h: &dyn Harness) {
    let name = unique("group");
    let (group, other) = (limited(h, &name, 1).await, limited(h, &name, 1).await);
    for polls in 0..24 {
        let member = group.add().await.expect("add");
        let cut = drop_after(polls, other.add()).await;
        assert!(!matches!(cut, Cut::Ended(_)), "one of one is live");
        eventually(CANCELLED, "nothing is left behind", || async {
            let state = group.inspect().await.expect("inspect");
            state.holders.len() == 1 && state.waiters == 0
        })
        .await;
        member.done().await.expect("done");
        // A dropped request may reach a networked store only now, until its cancel does.
        eventually(CANCELLED, "nobody queues", || async {
            match group.add_for(Duration::ZERO).await.expect("a definite answer") {
                Some(next) => next.done().await.map(|()| true).expect("done"),
                None => false,
            }
        })
        .await;
        if matches!(cut, Cut::Waiting) {
            break;
        }
    }
}

/// C8: a dead member's place is free after its lease.
pub(crate) async fn c8_w7_a_dead_members_place_is_free_after_its_lease(h: &dyn Harness) {
    let ttl = h.ttl();
    let name = unique("group");
    let group = limited(h, &name, 1).await;
    std::mem::forget(client(h, &name, Some(1), unrenewed(ttl)).await.add().await.expect("add"));
    within(ttl + EPSILON, "the lease ends", group.add()).await.expect("add").done().await.expect("done");
}

/// C26, W7: the queue of adds has a bound too.
pub(crate) async fn c26_w7_a_full_queue_refuses(h: &dyn Harness) {
    let mut options = HoldOptions::default();
    options.max_waiters = Some(1);
    let name = unique("group");
    let group = client(h, &name, Some(1), options).await;
    let member = group.add().await.expect("add");
    let waiter = Arc::clone(&group);
    let waiting = spawn(async move { waiter.add().await.expect("add") });
    queue_of(group.as_ref(), 1).await;
    let refused = within(AT_ONCE, "refused at once", group.add()).await;
    assert_eq!(kind_of(refused), Some(ErrorKind::Overloaded));
    member.done().await.expect("done");
    within(POLL_FLOOR + EPSILON, "the queued one", waiting.join()).await.done().await.expect("done");
}

async fn with(h: &dyn Harness, name: &str, limit: u32, on_mismatch: OnMismatch) -> Arc<dyn WaitGroup> {
    let options = WaitGroupOptions::default().limit(limit).on_mismatch(on_mismatch);
    h.store().await.wait_group(name, options).expect("a wait group")
}

pub(crate) async fn c20_another_member_limit_is_never_silent(h: &dyn Harness) {
    let name = unique("group");
    let first = limited(h, &name, 3_111).await;
    let member = first.add().await.expect("add");
    let refusing = with(h, &name, 5_222, OnMismatch::Refuse).await;
    let error = definite(|| refusing.add_for(IDLE)).await.expect_err("a difference is never silent");
    assert_eq!(error.kind(), ErrorKind::ConfigMismatch);
    let text = error.to_string().replace(&name, "");
    assert!(text.contains("3111") && text.contains("5222"), "names both values: {text}");
    let adopting = with(h, &name, 1, OnMismatch::Adopt).await;
    definite(|| adopting.add_for(IDLE)).await.expect("adopted").expect("free").done().await.expect("done");
    assert_eq!(first.inspect().await.expect("inspect").limit, Some(3_111));
    let replacing = with(h, &name, 1, OnMismatch::Replace).await;
    assert!(definite(|| replacing.add_for(IDLE)).await.expect("replaced").is_none(), "one of one is live");
    assert_eq!(first.inspect().await.expect("inspect").limit, Some(1), "for everybody");
    member.done().await.expect("done");
}

/// C19: counts are checked before any request is sent.
pub(crate) async fn c19_bad_member_counts_are_refused(h: &dyn Harness) {
    let store = h.store().await;
    for limit in [0, u32::MAX] {
        let refused = store.wait_group("group", WaitGroupOptions::default().limit(limit));
        assert_eq!(kind_of(refused), Some(ErrorKind::InvalidArgument), "a limit of {limit}");
    }
    let group = store.wait_group(&unique("group"), WaitGroupOptions::default()).expect("a wait group");
    for count in [0, u32::MAX] {
        assert_eq!(kind_of(group.add_many(count).await), Some(ErrorKind::InvalidArgument));
    }
    assert_eq!(group.count().await.expect("count"), 0);
}
