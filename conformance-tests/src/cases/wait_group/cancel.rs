//! Calls with a time limit and attaches that are dropped half-way.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use stanchion_core::clock::Instant;
use stanchion_core::{Detached, ErrorKind, HoldOptions, MutexMode, WaitGroup};

use super::{client, default_group};
use crate::harness::Harness;
use crate::support::{
    CANCELLED, Cut, EPSILON, POLL_FLOOR, QUEUED, TICK, drop_after, eventually, lease_of, leased, long_ttl,
    now, pause, timeout, unique, unrenewed, within,
};

/// Maximum number of polls: more than any call needs before it waits.
const MAXIMUM_POLLS: u32 = 24;
const LONG: Duration = Duration::from_secs(30);

/// Asserts that within `limit` the group has no member and no waiter, and can be joined.
async fn settles(group: &dyn WaitGroup, limit: Duration) {
    eventually(limit, "nothing is left behind", || async {
        match group.add_for(Duration::ZERO).await.expect("a definite answer") {
            Some(member) => member.done().await.map(|()| true).expect("done"),
            None => false,
        }
    })
    .await;
    eventually(limit, "nothing is left behind", || async {
        let state = group.inspect().await.expect("inspect");
        state.holders.is_empty() && state.waiters == 0 && group.count().await.expect("count") == 0
    })
    .await;
}

/// C4, W7: an add with a time limit, is dropped at the k-th poll for every k, on a free and on a
/// full group.
pub(crate) async fn c4_w7_a_dropped_timed_add_leaves_nothing(h: &dyn Harness) {
    let name = unique("group");
    let group = client(h, &name, Some(1), HoldOptions::default()).await;
    let other = client(h, &name, Some(1), HoldOptions::default()).await;
    for taken in [false, true] {
        for polls in 0..=MAXIMUM_POLLS {
            assert!(polls < MAXIMUM_POLLS, "it ends, or waits");
            let member = match taken {
                true => Some(other.add().await.expect("add")),
                false => None,
            };
            let cut = drop_after(polls, group.add_for(LONG)).await;
            let is_last = !matches!(cut, Cut::Dropped);
            if let Cut::Ended(added) = cut {
                let added = added.expect("a definite answer");
                assert!(!taken && added.is_some(), "one of one");
            }
            if let Some(member) = member {
                member.done().await.expect("done");
            }
            settles(other.as_ref(), CANCELLED).await;
            if is_last {
                break;
            }
        }
    }
}

/// C6, W4: an add that is left alone after some polls counts neither as a member nor as one that
/// expired.
pub(crate) async fn c6_w4_a_member_that_nobody_polled_does_not_expire(h: &dyn Harness) {
    let ttl = long_ttl(h);
    // One that is told that it is its turn.
    let is_kept_by_process = h.store().await.capabilities().mutex_mode == MutexMode::Process;
    let hold = if is_kept_by_process { unrenewed(ttl) } else { leased(ttl) };
    let name = unique("group");
    let (group, other) =
        (client(h, &name, Some(1), hold).await, client(h, &name, Some(1), leased(ttl)).await);
    let member = other.add().await.expect("add");
    let mut adding = Box::pin(group.add());
    assert!(matches!(drop_after(MAXIMUM_POLLS, &mut adding).await, Cut::Waiting), "one of one");
    member.done().await.expect("done");
    let is_count = async |count| other.count().await.expect("count") == count;
    let arrives = async {
        while !is_count(1).await {
            pause(TICK).await;
        }
    };
    let _ = timeout(POLL_FLOOR + EPSILON, arrives).await;
    eventually(ttl + EPSILON, "it is no member", || is_count(0)).await;
    let outcome = within(POLL_FLOOR + EPSILON, "zero", other.wait()).await.expect("wait");
    assert_eq!((outcome.finished, outcome.abandoned, outcome.expired), (1, 0, 0), "queued");
    let added = within(QUEUED, "it goes on", adding).await.expect("a member");
    added.done().await.expect("done");
    // Or whose request is under way.
    let leave = |polls| async move {
        let name = unique("group");
        let (group, other) =
            (client(h, &name, None, leased(ttl)).await, client(h, &name, None, leased(ttl)).await);
        let member = other.add().await.expect("add");
        let mut adding = Box::pin(group.add());
        if let Cut::Ended(added) = drop_after(polls, &mut adding).await {
            return added.expect("a member").done().await.expect("done");
        }
        let is_count = async |count| other.count().await.expect("count") == count;
        // What was sent of it arrives; of some calls nothing was.
        let arrives = async {
            while !is_count(2).await {
                pause(TICK).await;
            }
        };
        let _ = timeout(POLL_FLOOR, arrives).await;
        eventually(ttl + EPSILON, "it is no member", || is_count(1)).await;
        member.done().await.expect("done");
        let outcome = within(ttl + POLL_FLOOR + EPSILON, "zero", other.wait()).await.expect("wait");
        assert_eq!((outcome.finished, outcome.abandoned, outcome.expired), (1, 0, 0), "{polls} polls");
        let added = within(QUEUED, "it goes on", adding).await.expect("a member");
        added.done().await.expect("done");
    };
    join_all((1..6).map(leave)).await;
}

/// C4: a wait with a time limit that is dropped at the k-th poll, for every k, changes nothing.
pub(crate) async fn c4_dropped_timed_wait_changes_nothing(h: &dyn Harness) {
    let name = unique("group");
    let (group, other) = (default_group(h, &name).await, default_group(h, &name).await);
    let member = group.add().await.expect("add");
    for polls in 0..=MAXIMUM_POLLS {
        assert!(polls < MAXIMUM_POLLS, "it waits");
        let cut = drop_after(polls, other.wait_for(LONG)).await;
        assert!(!matches!(cut, Cut::Ended(_)), "a member is live");
        assert_eq!(group.count().await.expect("count"), 1);
        if matches!(cut, Cut::Waiting) {
            break;
        }
    }
    member.done().await.expect("done");
    let outcome = within(POLL_FLOOR + EPSILON, "zero", other.wait_for(LONG)).await.expect("wait");
    assert_eq!(outcome.map(|outcome| outcome.finished), Some(1));
    settles(group.as_ref(), CANCELLED).await;
}

/// Adds a member and detaches it. Returns it, and when its detach began. On a machine that stands
/// still, its lease can be over before the answer to the detach: then another member follows.
async fn detached_for(lease: Duration, group: &dyn WaitGroup) -> (Detached, Instant) {
    loop {
        let member = group.add().await.expect("add");
        let before = now();
        let error = match member.detach(lease_of(lease)).await {
            Ok(detached) => return (detached, before),
            Err(error) => error,
        };
        let is_late = matches!(error.kind(), ErrorKind::Lost | ErrorKind::Unknown | ErrorKind::Unavailable);
        assert!(is_late && before.elapsed() + TICK >= lease, "{error}");
        let ended = within(lease + POLL_FLOOR + EPSILON, "the member ends", group.wait()).await;
        ended.expect("wait");
    }
}

/// C4, C24: an attach of a member that is dropped at the k-th poll, for every k, keeps no member
/// beyond the lease.
pub(crate) async fn c4_c24_a_dropped_attach_keeps_no_member(h: &dyn Harness) {
    let lease = h.ttl();
    let name = unique("group");
    let group: Arc<dyn WaitGroup> = client(h, &name, None, HoldOptions::default()).await;
    for polls in 0..=MAXIMUM_POLLS {
        assert!(polls < MAXIMUM_POLLS, "an attach ends");
        let (detached, before) = detached_for(lease, group.as_ref()).await;
        let cut = drop_after(polls, group.attach(&detached)).await;
        let is_last = matches!(cut, Cut::Ended(_));
        if let Cut::Ended(attached) = cut {
            match attached {
                Ok(attached) => attached.done().await.expect("done"),
                // On a machine that stood still, its lease is over before it is attached.
                Err(error) => {
                    assert!(error.kind() == ErrorKind::Lost && now() + TICK >= before + lease, "{error}");
                }
            }
        }
        let outcome =
            within(lease + POLL_FLOOR + EPSILON, "the member ends", group.wait()).await.expect("wait");
        let ended = outcome.finished + outcome.abandoned + outcome.expired;
        assert_eq!(ended, 1, "it ends once: {outcome:?}");
        settles(group.as_ref(), CANCELLED).await;
        if is_last {
            break;
        }
    }
}
