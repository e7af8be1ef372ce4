//! The queue under a model checker: callers that compete for one name and are dropped at any point.

use std::future::{Future, poll_fn};
use std::mem::forget;
use std::pin::Pin;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use stanchion_core::{FencingToken, HoldOptions, Kind, Name, OnMismatch, Permit, Result};

use super::Acquire;
use crate::MemoryStoreBuilder;
use crate::kernel::Arrival;
use crate::name_handle::{Granted, NameHandle};
use crate::namespaces::{DEFAULT, States};
use crate::sessions::Sessions;
use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::model::{GiveUp, Time, beside, draw, exhaust, explore, pause};

/// A call that records its place in the queue and when it arrived.
struct Watched<'a> {
    call: Acquire<'a>,
    fixture: &'a Fixture,
    came: Came,
}

/// When a call arrived, by the fixture's count of moments.
#[derive(Clone, Copy, Debug, Default)]
struct Came {
    place: Option<Arrival>,
    /// The moment before its first poll.
    before: Option<u32>,
    /// The moment after the poll that queued it.
    after: Option<u32>,
}

impl Future for Watched<'_> {
    type Output = Result<(Granted, Came)>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let moment = || Some(self.fixture.moments.fetch_add(1, SeqCst));
        let before = self.came.before.or_else(moment);
        let polled = Pin::new(&mut self.call).poll(cx);
        let after = self.came.after.or_else(|| Some(self.fixture.moments.fetch_add(1, SeqCst)));
        let place = self.came.place.or(self.call.arrival);
        self.came = Came { place, before, after };
        polled.map(|granted| Ok((granted?, self.came)))
    }
}

/// One semaphore, and the observations of its callers.
struct Fixture {
    handle: Arc<NameHandle>,
    limit: u32,
    /// Permits that callers believe they hold. Not a scheduling point of the checker.
    held: AtomicU32,
    grants: Mutex<Vec<(FencingToken, Came)>>,
    moments: AtomicU32,
}

impl Fixture {
    fn new(limit: u32) -> Arc<Self> {
        let session = Sessions::begin(Arc::new(States::new(MemoryStoreBuilder::default())), DEFAULT).1;
        let (name, options) = (Name::new("a").unwrap(), HoldOptions::default());
        let refuse = OnMismatch::Refuse;
        let handle =
            NameHandle::open(&session, Kind::Semaphore, name, &options, Some(limit), refuse).unwrap();
        let (held, moments) = (AtomicU32::new(0), AtomicU32::new(0));
        Arc::new(Self { handle, limit, held, grants: Mutex::default(), moments })
    }

    fn call(&self, weight: u32) -> Pin<Box<Watched<'_>>> {
        Box::pin(Watched { call: self.handle.acquire("lock", weight), fixture: self, came: Came::default() })
    }

    /// Acquires with this give_up, uses the permit, and returns it by a call or by a drop.
    async fn visit(&self, weight: u32, give_up: GiveUp, calls_release: bool) {
        let Some(granted) = give_up.wait(self.call(weight)).await else { return };
        let (granted, came) = granted.unwrap();
        self.grants.lock().unwrap().push((granted.token, came));
        let permit = Permit::new(self.handle.hold(granted, weight));
        let held = weight + self.held.fetch_add(weight, SeqCst);
        assert!(held <= self.limit, "{held} permits of {} (S1)", self.limit);
        pause().await;
        assert!(permit.is_held());
        self.held.fetch_sub(weight, SeqCst);
        if calls_release {
            permit.release().await.unwrap();
        }
    }

    /// Checks what must hold when all callers have gone.
    fn check(&self) {
        let left = self.handle.with(|permits, _| Ok((permits.used(), permits.queued()))).unwrap();
        assert_eq!(left, (0, 0), "permits held and callers queued (C4)");
        assert!(self.handle.try_hold("try_lock", self.limit).unwrap().is_some(), "a permit is lost (S4)");
        let mut grants = self.grants.lock().unwrap().clone();
        grants.sort_unstable_by_key(|(token, _)| *token);
        assert!(grants.windows(2).all(|pair| pair[0].0 < pair[1].0), "two grants of one token (M2)");
        let places: Vec<Arrival> = grants.iter().filter_map(|(_, came)| came.place).collect();
        assert!(places.is_sorted(), "not first come, first served (C16): {places:?}");
        // No caller passed another one that had queued before it arrived.
        for (index, (_, first)) in grants.iter().enumerate() {
            let passed =
                |(_, later): &&(FencingToken, Came)| later.place.is_some() && later.after < first.before;
            let passed = grants[index..].iter().find(passed);
            assert!(passed.is_none(), "{first:?} before {passed:?} (C16)");
        }
    }
}

/// Runs three callers, each with `visits` calls that are given up at any moment or not at all.
fn crowd(limit: u32, visits: usize) {
    Time::scenario(|_| async move {
        let fixture = Fixture::new(limit);
        let callers = [0, 1, 2].map(|_| {
            let fixture = Arc::clone(&fixture);
            beside(async move {
                for _ in 0..visits {
                    let weight = u32::try_from(1 + draw(usize::try_from(limit).unwrap())).unwrap();
                    fixture.visit(weight, GiveUp::draw(), draw(2) == 0).await;
                }
            })
        });
        for caller in callers {
            caller.await;
        }
        fixture.check();
    });
}

#[test]
fn c5_three_callers_of_a_mutex_given_up_anywhere_lose_no_wake_up_and_keep_their_order() {
    explore(5000, || crowd(1, 2));
}

#[test]
fn s2_three_callers_of_several_permits_given_up_anywhere_lose_none() {
    explore(5000, || crowd(3, 2));
}

/// One permit stays held. The large request waits and is then cancelled: only that lets the small
/// request behind it be granted.
#[test]
fn c5_a_large_call_that_is_given_up_lets_the_small_one_behind_it_go() {
    explore(1000, || {
        Time::scenario(|_| async move {
            let fixture = Fixture::new(3);
            let held = fixture.handle.try_hold("try_lock", 1).unwrap().unwrap();
            let held = fixture.handle.hold(held, 1);
            let (large, small) = (Arc::clone(&fixture), Arc::clone(&fixture));
            let give_up = if draw(2) == 0 { GiveUp::Polls(1) } else { GiveUp::Polls(2) };
            let large = beside(async move { large.visit(3, give_up, false).await });
            let small = beside(async move { small.visit(1, GiveUp::Endless, false).await });
            small.await;
            large.await;
            drop(held);
            fixture.check();
        });
    });
}

#[test]
fn m1_every_schedule_of_two_callers_keeps_exclusion_and_wakes_both() {
    let others = [GiveUp::Endless, GiveUp::Polls(1), GiveUp::Woken];
    for other in others {
        let schedules = exhaust(50_000, move || {
            Time::scenario(|_| async move {
                let fixture = Fixture::new(1);
                let second = Arc::clone(&fixture);
                let second = beside(async move { second.visit(1, other, false).await });
                fixture.visit(1, GiveUp::Endless, false).await;
                second.await;
                fixture.check();
            });
        });
        println!("{schedules} schedules of an endless call and of one with {other:?}");
    }
}

/// A caller that neither waits nor gives up keeps its place for ever: the checker must find that
/// the next caller is stuck.
#[test]
#[should_panic(expected = "deadlock")]
fn c5_a_place_that_is_never_given_up_is_found() {
    explore(200, || {
        Time::scenario(|_| async move {
            let fixture = Fixture::new(1);
            let forgetful = Arc::clone(&fixture);
            let forgetful = beside(async move {
                let mut call = forgetful.call(1);
                match poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await {
                    Poll::Ready(granted) => drop(forgetful.handle.hold(granted.unwrap().0, 1)),
                    Poll::Pending => forget(call),
                }
            });
            fixture.visit(1, GiveUp::Endless, false).await;
            forgetful.await;
            fixture.visit(1, GiveUp::Endless, false).await;
        });
    });
}
