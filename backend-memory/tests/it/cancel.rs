//! Futures dropped at every point (C4), and waiters that do not suffer from it (C5).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crate::common::{Dice, Polled, group, mutex, now, semaphore};
use stanchion_conformance::wakers::panicking;
use stanchion_core::{LimiterOptions, MutexGuard, Quota, Result, Store};
use stanchion_memory::MemoryStore;

/// Who else is in the queue, and what happened, when the future is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Point {
    NeverPolled,
    Queued,
    QueuedAndPolledAgain,
    GrantedNotPolled,
    FreedBeforePolled,
    Finished,
}

const POINTS: [Point; 6] = [
    Point::NeverPolled,
    Point::Queued,
    Point::QueuedAndPolledAgain,
    Point::GrantedNotPolled,
    Point::FreedBeforePolled,
    Point::Finished,
];

#[test]
fn c4_a_lock_dropped_at_any_point_leaves_nothing() {
    for point in POINTS {
        for others_wait in [false, true] {
            let store = MemoryStore::new();
            let one = mutex(&store, "a");
            let holder = now(one.lock()).unwrap();
            let mut dropped = Polled::new(one.lock());
            if point != Point::NeverPolled {
                assert!(dropped.poll().is_none());
            }
            let mut other = Polled::new(one.lock());
            if others_wait {
                assert!(other.poll().is_none());
            }
            let mut holder = Some(holder);
            match point {
                Point::NeverPolled | Point::Queued => {}
                Point::QueuedAndPolledAgain => assert!(dropped.poll().is_none()),
                Point::GrantedNotPolled => holder = None,
                Point::FreedBeforePolled => {
                    holder = None;
                    assert!(now(one.force_unlock()).unwrap());
                }
                Point::Finished => {
                    holder = None;
                    drop(dropped.poll().unwrap().unwrap());
                }
            }
            drop(dropped);
            drop(holder);
            if others_wait {
                drop(other.poll().unwrap().unwrap());
            }
            drop(other);
            let inspection = now(one.inspect()).unwrap();
            assert!(inspection.holders.is_empty() && inspection.waiters == 0, "{point:?} {others_wait}");
            assert!(now(one.try_lock()).unwrap().is_some());
        }
    }
}

#[test]
fn c4_a_dropped_add_leaves_no_member() {
    let store = MemoryStore::new();
    let options = stanchion_core::WaitGroupOptions::default().limit(3);
    let one = store.wait_group("a", options).unwrap();
    let member = now(one.add()).unwrap();
    let mut adding = Polled::new(one.add_many(3));
    assert!(adding.poll().is_none());
    drop(member);
    assert_eq!(now(one.count()).unwrap(), 3);
    drop(adding);
    assert_eq!(now(one.count()).unwrap(), 0);
    drop(Polled::new(group(&store, "b").add()));
    assert_eq!(now(group(&store, "b").count()).unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn c4_a_dropped_call_with_a_limit_and_one_whose_time_ran_out_leave_nothing() {
    let store = MemoryStore::new();
    let one = semaphore(&store, "a", 2);
    let held = one.acquire_many(2).await.unwrap();
    let mut waiting = Polled::new(one.acquire_many_for(2, Duration::from_secs(9)));
    assert!(waiting.poll().is_none());
    drop(waiting);
    assert!(one.acquire_many_for(1, Duration::from_secs(9)).await.unwrap().is_none());
    assert_eq!(one.inspect().await.unwrap().waiters, 0);
    drop(held);
    assert_eq!(one.available().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn c4_a_dropped_wait_of_a_limiter_gives_its_place_back() {
    let store = MemoryStore::new();
    let limiter = store.limiter("a", LimiterOptions::new(Quota::per_second(10))).unwrap();
    limiter.wait_n(10).await.unwrap();
    let mut waiting = Polled::new(limiter.wait_n(5));
    assert!(waiting.poll().is_none());
    drop(waiting);
    assert_eq!(limiter.peek().await.unwrap().reset_after, Duration::from_secs(1));
}

/// 200 places for waiters; whoever gets the mutex drops it at once, or keeps it for a while.
#[test]
fn c5_ten_thousand_random_cancels_among_200_waiters() {
    let store = MemoryStore::new();
    let one = mutex(&store, "a");
    let mut dice = Dice(5);
    let mut places: Vec<Option<Polled<'_, Result<MutexGuard>>>> = (0..200).map(|_| None).collect();
    let mut held: Option<MutexGuard> = None;
    let (mut cancels, mut grants) = (0, 0);
    while cancels < 10_000 {
        let place = &mut places[dice.roll(200)];
        match (dice.roll(8), place.take()) {
            (0 | 1, Some(dropped)) => {
                drop(dropped);
                cancels += 1;
            }
            (2, kept) => {
                *place = kept;
                held = None;
            }
            (_, kept) => *place = kept.or_else(|| Some(Polled::new(one.lock()))),
        }
        // Most of the time the one who was woken runs next; sometimes it is dropped before.
        for place in &mut places {
            if place
                .as_ref()
                .is_some_and(|waiting| waiting.polls() == 0 || (waiting.wakes() > 0 && dice.roll(3) > 0))
                && let Some(guard) = place.as_mut().and_then(Polled::poll)
            {
                assert!(held.is_none(), "two holders");
                held = Some(guard.unwrap());
                grants += 1;
                *place = None;
            }
        }
    }
    assert!(grants > 1000, "{grants}");
    // Everybody who still waits is served, in some order, without another wake-up than releases.
    drop(held);
    let mut left: Vec<_> = places.into_iter().flatten().collect();
    while !left.is_empty() {
        let before = left.len();
        left.retain_mut(|waiting| waiting.poll().is_none());
        assert!(left.len() < before, "{before} waiters are stuck");
    }
    let inspection = now(one.inspect()).unwrap();
    assert!(inspection.holders.is_empty() && inspection.waiters == 0);
    assert!(now(one.try_lock()).unwrap().is_some());
}

#[test]
fn s4_permits_are_conserved_by_random_cancels() {
    let store = MemoryStore::new();
    let one = semaphore(&store, "a", 7);
    let mut dice = Dice(77);
    let mut places: Vec<Option<Polled<'_, Result<stanchion_core::Permit>>>> = (0..50).map(|_| None).collect();
    let mut held = Vec::new();
    for _ in 0..20_000 {
        let weight = u32::try_from(1 + dice.roll(7)).unwrap();
        let place = &mut places[dice.roll(50)];
        match (dice.roll(6), place.take()) {
            (0, dropped) => drop(dropped),
            (1 | 2, kept) => {
                *place = kept;
                if !held.is_empty() {
                    drop(held.swap_remove(dice.roll(held.len())));
                }
            }
            (_, kept) => {
                let mut waiting = kept.unwrap_or_else(|| Polled::new(one.acquire_many(weight)));
                match waiting.poll() {
                    Some(permit) => held.push(permit.unwrap()),
                    None => *place = Some(waiting),
                }
            }
        }
        assert!(held.iter().map(stanchion_core::Permit::weight).sum::<u32>() <= 7);
    }
    drop((places, held));
    assert_eq!(now(one.available()).unwrap(), 7);
    assert_eq!(now(one.try_acquire_many(7)).unwrap().unwrap().weight(), 7);
}

/// A waker that owns a call of the same name, as a task owns its future.
struct Owner {
    _call: Mutex<Polled<'static, Result<MutexGuard>>>,
}

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn c4_a_waker_dropped_with_its_call_may_drop_another_call_of_the_name() {
    let store = MemoryStore::new();
    let one: &'static Arc<dyn stanchion_core::Mutex> = Box::leak(Box::new(mutex(&store, "a")));
    let guard = now(one.lock()).unwrap();
    for replaced in [false, true] {
        let mut owned = Polled::new(one.lock());
        assert!(owned.poll().is_none());
        let owner = Arc::new(Owner { _call: Mutex::new(owned) });
        let mut call = one.lock();
        let waker = Waker::from(owner);
        assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        if replaced {
            let mut other = Context::from_waker(Waker::noop());
            assert!(call.as_mut().poll(&mut other).is_pending());
        }
        drop(call);
        assert_eq!(now(one.inspect()).unwrap().waiters, 0);
    }
    drop(guard);
    assert!(now(one.try_lock()).unwrap().is_some());
}

/// A waker that panics costs neither the caller who wakes it nor the waiters behind it.
#[test]
fn c5_c12_a_waker_that_panics_keeps_no_wake_up_from_the_others() {
    let store = MemoryStore::new();
    let (semaphore, group) = (semaphore(&store, "a", 2), group(&store, "a"));
    let (permits, member) = (now(semaphore.acquire_many(2)).unwrap(), now(group.add()).unwrap());
    let waker = panicking();
    let mut context = Context::from_waker(&waker);
    let (mut first, mut lost, mut waits) =
        (Box::pin(semaphore.acquire()), Box::pin(permits.lost()), Box::pin(group.wait()));
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(lost.as_mut().poll(&mut context).is_pending());
    assert!(waits.as_mut().poll(&mut context).is_pending());
    let mut second = Polled::new(semaphore.acquire());
    assert!(second.poll().is_none());
    assert!(now(semaphore.force_release(permits.ticket())).unwrap());
    assert_eq!(second.wakes(), 1);
    assert!(second.poll().unwrap().unwrap().is_held());
    drop(member);
    assert_eq!(now(group.wait()).unwrap().abandoned, 1);
}
