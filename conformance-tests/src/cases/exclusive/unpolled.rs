//! Calls that are begun and then not polled any more, as beside a long arm of a `select!`.

use futures_util::future::join_all;
use stanchion_core::HoldOptions;

use super::super::lock_fixture::{LockFixture, LockKind};
use crate::harness::Harness;
use crate::support::{
    AT_ONCE, Cut, EPSILON, IDLE, beside, drop_after, leased, long_ttl, pause, spawn, unrenewed, within,
};

/// After so many polls a call on a free name has ended.
const POLLS: u32 = 6;

/// A call that is left alone when it was told that it is its turn, or while it is granted, costs
/// the others one lease. Polled later, it goes on.
pub(crate) async fn c6_a_call_that_nobody_polls_costs_the_others_one_lease(h: &dyn Harness, kind: LockKind) {
    let queued = (0..POLLS).map(|polls| leave(h, kind, true, polls));
    let alone = (1..POLLS).map(|polls| leave(h, kind, false, polls));
    tokio::join!(join_all(queued), join_all(alone));
}

/// Leaves a call alone after so many polls, on a free name, or when it was `queued` and is next.
async fn leave(h: &dyn Harness, kind: LockKind, queued: bool, polls: u32) {
    let fixture = LockFixture::new(h, kind).await;
    let ttl = fixture.lease(long_ttl(h));
    let options = if fixture.is_kept_by_process() { unrenewed(ttl) } else { leased(ttl) };
    let (left, next) = (fixture.client(options).await, fixture.client(HoldOptions::default()).await);
    let mut locking = Box::pin(left.lock());
    let mut waiting = None;
    let wait = || {
        let next = next.clone();
        spawn(async move { next.lock().await.expect("a turn") })
    };
    if queued {
        let held = next.lock().await.expect("lock");
        beside(&mut locking, "it is held", next.queue_of(1)).await;
        waiting = Some(wait());
        beside(&mut locking, "it is held", next.queue_of(2)).await;
        held.release().await.expect("release");
    }
    if let Cut::Ended(guard) = drop_after(polls, &mut locking).await {
        guard.expect("a grant").release().await.expect("release");
        return;
    }
    let waiting = waiting.unwrap_or_else(wait);
    let guard = within(ttl + EPSILON, "the next one's turn", waiting.join()).await;
    beside(&mut locking, "it is held", pause(IDLE)).await;
    assert!(guard.is_held());
    guard.release().await.expect("release");
    let guard = within(ttl + EPSILON, "it goes on", &mut locking).await.expect("a grant");
    assert!(guard.is_held());
    guard.release().await.expect("release");
    fixture.settles(&next, None).await;
}

/// C27: calls that are begun and left alone keep nothing that other calls need.
pub(crate) async fn c27_calls_that_nobody_polls_hold_up_no_others(h: &dyn Harness, kind: LockKind) {
    /// More than any store has connections for callers.
    const LEFT: u32 = 8;
    let store = h.store().await;
    for polls in 1..POLLS {
        let mut fixtures = Vec::new();
        for _ in 0..=LEFT {
            fixtures.push(LockFixture::new(h, kind).await);
        }
        let locks: Vec<_> =
            fixtures.iter().map(|fixture| fixture.open(&store, HoldOptions::default())).collect();
        let mut left = Vec::new();
        for lock in &locks[1..] {
            let mut locking = Box::pin(lock.lock());
            drop(drop_after(polls, &mut locking).await);
            left.push(locking);
        }
        let guard = within(AT_ONCE, "another call", locks[0].lock()).await.expect("lock");
        guard.release().await.expect("release");
    }
}
