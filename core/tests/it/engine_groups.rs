//! Those who wait for wait groups, over a model of a store with faults to order.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time and fail by panics"
)]

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;
use std::time::Duration;

use crate::model::drop_after::drop_after;
use crate::model::{Model, model, model_within};
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::{Stopwatch, timeout};
use stanchion_conformance::support::AT_ONCE;
use stanchion_core::engine::Engine;
use stanchion_core::{ErrorKind, Outcome, Result, WaitGroup, WaitGroupOptions};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_millis(600);
/// The most the poll floor can be.
const FLOOR: Duration = Duration::from_secs(1);

fn group(engine: &Engine) -> Arc<dyn WaitGroup> {
    engine.wait_group("g", WaitGroupOptions::default()).unwrap()
}

fn wait(group: &Arc<dyn WaitGroup>) -> JoinHandle<Result<Outcome>> {
    let group = Arc::clone(group);
    tokio::spawn(async move { group.wait().await })
}

/// A hundred waiters that have asked: the first poll of each is made here, and a task makes the
/// others.
async fn hundred(groups: &[Arc<dyn WaitGroup>; 2]) -> Vec<JoinHandle<Result<Outcome>>> {
    let mut waiters = Vec::new();
    for index in 0..100 {
        let group = Arc::clone(&groups[index % 2]);
        let mut waiting = Box::pin(async move { group.wait().await });
        let waits = poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await;
        assert!(waits, "the group has a member");
        waiters.push(tokio::spawn(waiting));
    }
    waiters
}

async fn told(waiting: JoinHandle<Result<Outcome>>, limit: Duration) -> Result<Outcome> {
    timeout(limit, waiting).await.expect("it returns in time").unwrap()
}

fn counted(outcome: Outcome) -> (u64, u64, u64) {
    (outcome.finished, outcome.abandoned, outcome.expired)
}

/// Waits until so many members are there and nobody queues.
async fn left(model: &Model, members: usize) {
    let seen = async {
        while model.left() != (members, 0) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(FLOOR + EPSILON, seen).await.unwrap_or_else(|_| panic!("not {members} but {:?}", model.left()));
}

#[tokio::test]
async fn c15_w3_a_hundred_waiters_are_one_question_and_are_told_at_once() {
    let (model, engine) = model();
    const ROUNDS: u32 = 12;
    let groups = [group(&engine), group(&engine)];
    let mut member = groups[0].add().await.unwrap();
    let mut waiters = hundred(&groups).await;
    let before = model.faults.looks.load(SeqCst);
    let start = Instant::now();
    let two_floors = async {
        while model.faults.looks.load(SeqCst) < before + 2 || start.elapsed() < FLOOR * 2 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    // One in a poll floor at least, and four in a second at most.
    timeout(FLOOR * 2 + EPSILON, two_floors).await.expect("two looks in two poll floors");
    let looks = model.faults.looks.load(SeqCst) - before;
    let most = u32::try_from(start.elapsed().as_millis() / 250).unwrap() + 1;
    assert!((2..=most).contains(&looks), "{looks} looks, and {most} at most");
    // By polls it would be three times the bound. A question of each waiter would be thirty times
    // the bound.
    let (mut took, mut looks) = (Duration::ZERO, 0);
    for _ in 0..ROUNDS {
        let before = model.faults.looks.load(SeqCst);
        let watch = Stopwatch::start();
        member.done().await.unwrap();
        for waiter in waiters {
            assert_eq!(counted(told(waiter, FLOOR + EPSILON).await.unwrap()), (1, 0, 0));
        }
        took += watch.elapsed();
        looks += model.faults.looks.load(SeqCst) - before;
        member = groups[0].add().await.unwrap();
        waiters = hundred(&groups).await;
    }
    assert!(took < FLOOR && looks <= 3 * ROUNDS, "told, not polled: {took:?}, {looks} looks");
    drop(member);
}

#[tokio::test]
async fn c14_w3_without_wake_ups_the_poll_floor_serves() {
    let (model, engine) = model();
    model.faults.no_wake.store(true, SeqCst);
    let group = group(&engine);
    let member = group.add().await.unwrap();
    let waiter = wait(&group);
    sleep(TTL / 2).await;
    member.done().await.unwrap();
    assert_eq!(counted(told(waiter, FLOOR + EPSILON).await.unwrap()), (1, 0, 0));
}

#[tokio::test]
async fn c14_w3_a_hint_that_comes_before_the_caller_waits_is_not_lost() {
    const ROUNDS: u32 = 12;
    let (model, engine) = model();
    let group = group(&engine);
    // Somebody waits elsewhere, so that wake-ups are listened for.
    let elsewhere = engine.wait_group("other", WaitGroupOptions::default()).unwrap();
    let _other = elsewhere.add().await.unwrap();
    let _waiting = wait(&elsewhere);
    sleep(Duration::from_millis(20)).await;
    model.faults.delay_ms.store(50, SeqCst);
    // By the poll that follows the look each would take three times as long.
    let mut took = Duration::ZERO;
    for _ in 0..ROUNDS {
        let member = group.add().await.unwrap();
        // The look is executed, the member ends, and only then is the look answered.
        let watch = Stopwatch::start();
        let waiter = wait(&group);
        sleep(Duration::from_millis(15)).await;
        member.done().await.unwrap();
        told(waiter, FLOOR + EPSILON).await.unwrap();
        took += watch.elapsed();
    }
    assert!(took < FLOOR * ROUNDS / 5, "by the hint: {took:?} in {ROUNDS} rounds");
}

#[tokio::test]
async fn w4_an_expired_member_is_noticed_soon() {
    let (model, engine) = model();
    let options = WaitGroupOptions::default().ttl(TTL).renew(false);
    let start = Instant::now();
    std::mem::forget(engine.wait_group("g", options).unwrap().add().await.unwrap());
    let outcome = told(wait(&group(&engine)), TTL + EPSILON).await.unwrap();
    assert_eq!(counted(outcome), (0, 0, 1));
    assert!(start.elapsed() >= TTL);
    assert_eq!(model.left(), (0, 0));
}

#[tokio::test]
async fn w5_waiters_of_two_generations_are_told_apart() {
    let (model, engine) = model();
    model.faults.no_wake.store(true, SeqCst);
    let group = group(&engine);
    let first = group.add().await.unwrap();
    let early = wait(&group);
    sleep(Duration::from_millis(20)).await;
    drop(first);
    left(&model, 0).await;
    let second = group.add().await.unwrap();
    let late = wait(&group);
    assert_eq!(counted(told(early, FLOOR + EPSILON).await.unwrap()), (0, 1, 0));
    assert!(!late.is_finished());
    second.done().await.unwrap();
    assert_eq!(counted(told(late, FLOOR + EPSILON).await.unwrap()), (1, 0, 0));
}

#[tokio::test]
async fn c4_a_dropped_wait_leaves_nothing_to_ask() {
    let (model, engine) = model();
    let group = group(&engine);
    let member = group.add().await.unwrap();
    for delay in [0, 8] {
        model.faults.delay_ms.store(delay, SeqCst);
        for polls in 0..8 {
            assert!(drop_after(polls, group.wait()).await.is_none());
            assert!(drop_after(polls, group.wait_for(FLOOR * 60)).await.is_none());
        }
    }
    model.faults.delay_ms.store(0, SeqCst);
    sleep(Duration::from_millis(50)).await;
    let before = model.faults.looks.load(SeqCst);
    sleep(FLOOR).await;
    assert_eq!(model.faults.looks.load(SeqCst), before, "nobody waits, nobody asks");
    member.done().await.unwrap();
}

#[tokio::test]
async fn c17_a_wait_with_a_limit_says_that_the_store_is_away() {
    // Longer than any call here: a look that is not answered does not end before.
    let (model, engine) = model_within(FLOOR * 60);
    // A lease that no outage here ends.
    let group = engine.wait_group("g", WaitGroupOptions::default()).unwrap();
    std::mem::forget(group.add().await.unwrap());
    let limit = Duration::from_millis(700);
    let ends = async |kind| {
        let (start, watch) = (Instant::now(), Stopwatch::start());
        assert_eq!(group.wait_for(limit).await.unwrap_err().kind(), kind);
        assert!(start.elapsed() >= limit && watch.elapsed() < limit + EPSILON, "{:?}", watch.elapsed());
    };
    model.faults.away.store(true, SeqCst);
    ends(ErrorKind::Unavailable).await;
    assert_eq!(group.wait_for(Duration::ZERO).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(group.count().await.unwrap_err().kind(), ErrorKind::Unavailable);
    model.faults.away.store(false, SeqCst);
    model.faults.delay_ms.store(20_000, SeqCst);
    ends(ErrorKind::Unknown).await;
    model.faults.delay_ms.store(0, SeqCst);
    // Away only once the caller waits.
    for kind in [ErrorKind::Unavailable, ErrorKind::Unknown] {
        let group = Arc::clone(&group);
        let waiting = tokio::spawn(async move { group.wait_for(FLOOR * 4).await });
        sleep(Duration::from_millis(100)).await;
        model.faults.away.store(kind == ErrorKind::Unavailable, SeqCst);
        model.faults.delay_ms.store(if kind == ErrorKind::Unknown { 20_000 } else { 0 }, SeqCst);
        assert_eq!(waiting.await.unwrap().unwrap_err().kind(), kind);
        model.faults.away.store(false, SeqCst);
    }
}

#[tokio::test]
async fn c17_wait_rides_out_an_outage_and_ends_with_a_refusal() {
    let (model, engine) = model();
    let group = group(&engine);
    let member = group.add().await.unwrap();
    let early = wait(&group);
    sleep(Duration::from_millis(50)).await;
    model.faults.away.store(true, SeqCst);
    let late = wait(&group);
    sleep(TTL / 2).await;
    model.faults.away.store(false, SeqCst);
    member.done().await.unwrap();
    for waiter in [early, late] {
        told(waiter, FLOOR + EPSILON).await.unwrap();
    }
    let member = group.add().await.unwrap();
    let waiter = wait(&group);
    sleep(Duration::from_millis(50)).await;
    model.faults.forbidden.store(true, SeqCst);
    let error = told(waiter, FLOOR + EPSILON).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
    assert_eq!((error.operation(), error.name()), (Some("wait"), Some("g")));
    assert_eq!(told(wait(&group), FLOOR + EPSILON).await.unwrap_err().kind(), ErrorKind::Unauthorized);
    drop(member);
}

#[tokio::test]
async fn c12_close_ends_waits_at_every_stage() {
    let (model, engine) = model();
    let group = group(&engine);
    let member = group.add().await.unwrap();
    let attending = wait(&group);
    sleep(Duration::from_millis(50)).await;
    model.faults.delay_ms.store(200, SeqCst);
    let looking = wait(&group);
    sleep(Duration::from_millis(50)).await;
    engine.close().await.unwrap();
    assert!(!member.is_held());
    assert_eq!(told(attending, AT_ONCE).await.unwrap_err().kind(), ErrorKind::Closed);
    // Where the machine stood still, the question may have come to the store after the release of
    // the member.
    match told(looking, AT_ONCE).await {
        Ok(outcome) => assert_eq!(counted(outcome), (0, 1, 0)),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
    }
    assert_eq!(group.wait_for(TTL).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(group.count().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(group.done(member.ticket()).await.unwrap_err().kind(), ErrorKind::Closed);
    let again = engine.wait_group("g", WaitGroupOptions::default()).map(drop);
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(model.left(), (0, 0));
}

fn lose_data(model: &Model) {
    model.records.lock().unwrap().clear();
}

#[tokio::test]
async fn w6_a_lost_record_is_told_and_the_next_one_followed() {
    let (model, engine) = model();
    let (adder, told_of, ignorant) = (group(&engine), group(&engine), group(&engine));
    let lost = |result: Result<Outcome>| assert_eq!(result.unwrap_err().kind(), ErrorKind::StateLost);
    std::mem::forget(adder.add().await.unwrap());
    assert_eq!(told_of.count().await.unwrap(), 1);
    let waiters = [wait(&adder), wait(&told_of)];
    sleep(Duration::from_millis(50)).await;
    lose_data(&model);
    for waiter in waiters {
        lost(told(waiter, FLOOR + EPSILON).await);
    }
    for group in [&adder, &told_of] {
        for _ in 0..2 {
            lost(group.wait().await);
        }
    }
    assert!(ignorant.wait().await.unwrap().is_success());
    // There again: told once, and by its own add not at all.
    let member = adder.add().await.unwrap();
    assert_eq!(adder.count().await.unwrap(), 1);
    lost(told_of.wait().await);
    assert_eq!(told_of.count().await.unwrap(), 1);
    member.done().await.unwrap();
    assert_eq!(counted(told_of.wait().await.unwrap()), (1, 0, 0));
    lose_data(&model);
    lost(told_of.wait().await);
}

#[tokio::test]
async fn w6_a_waiter_is_not_caught_by_a_record_made_anew() {
    let (model, engine) = model();
    let (waiting, other) = (group(&engine), group(&engine));
    std::mem::forget(other.add().await.unwrap());
    let waiter = wait(&waiting);
    sleep(Duration::from_millis(50)).await;
    lose_data(&model);
    let member = other.add().await.unwrap();
    let error = told(waiter, FLOOR + EPSILON).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StateLost);
    let waiter = wait(&waiting);
    sleep(Duration::from_millis(50)).await;
    assert!(!waiter.is_finished(), "the handle follows the new one");
    member.done().await.unwrap();
    told(waiter, AT_ONCE).await.unwrap();
}
