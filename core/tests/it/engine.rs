//! The engine over a model of a store, with faults to order.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time and fail by panics"
)]

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::model::drop_after::drop_after;
use crate::model::{Model, model};
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::{Stopwatch, timeout};
use stanchion_core::engine::Engine;
use stanchion_core::{ErrorKind, Mutex, MutexGuard, MutexOptions, SemaphoreOptions, Ttl};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_millis(600);
/// A lease that a machine that stands still for a second or two does not end.
const LONG: Duration = Duration::from_secs(5);

fn belief() -> Duration {
    TTL * 99 / 100 - TTL / 20
}

fn mutex(engine: &Engine) -> Arc<dyn Mutex> {
    engine.mutex("m", MutexOptions::default().ttl(TTL)).unwrap()
}

fn lasting(engine: &Engine) -> Arc<dyn Mutex> {
    engine.mutex("m", MutexOptions::default().ttl(LONG)).unwrap()
}

/// Waits until nothing is held or queued.
async fn empty(model: &Model) {
    let emptied = async {
        while model.left() != (0, 0) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(1) + EPSILON, emptied).await.expect("nothing is held or queued within 1 s");
}

#[tokio::test]
async fn c13_a_hold_outlives_its_ttl() {
    let (model, engine) = model();
    let guard = lasting(&engine).lock().await.unwrap();
    timeout(LONG * 2, guard.lost()).await.expect_err("renewals succeed");
    assert!(guard.is_held());
    assert!(model.faults.renewals.load(SeqCst) >= 4);
    guard.release().await.unwrap();
    empty(&model).await;
}

#[test]
fn c13_a_blocked_worker_keeps_its_hold() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (_model, engine) = model();
        let guard = lasting(&engine).lock().await.unwrap();
        std::thread::sleep(LONG * 3 / 2);
        assert!(guard.is_held());
    });
}

#[tokio::test]
async fn c13_renewals_of_many_holds_are_few_calls() {
    let (model, engine) = model();
    let mut guards = Vec::new();
    for index in 0..1000 {
        let mutex = engine.mutex(&format!("m{index}"), MutexOptions::default().ttl(LONG)).unwrap();
        guards.push(mutex.lock().await.unwrap());
    }
    let before = model.faults.renewals.load(SeqCst);
    sleep(LONG).await;
    let calls = model.faults.renewals.load(SeqCst) - before;
    assert!(calls <= 3 * 12, "{calls} calls for 1,000 holds in one TTL");
    assert!(guards.iter().all(MutexGuard::is_held));
}

#[tokio::test]
async fn c9_lost_resolves_at_the_deadline_without_the_store() {
    let (model, engine) = model();
    let before = Instant::now();
    let guard = mutex(&engine).lock().await.unwrap();
    model.faults.no_renewal.store(true, SeqCst);
    model.faults.away.store(true, SeqCst);
    timeout(belief() + EPSILON, guard.lost()).await.expect("told at D");
    let waited = before.elapsed();
    assert!(!guard.is_held());
    assert!(waited >= belief() - Duration::from_millis(2), "too early: {waited:?}");
    model.faults.no_renewal.store(false, SeqCst);
    model.faults.away.store(false, SeqCst);
    sleep(TTL).await;
    assert!(!guard.is_held(), "a lost guard stays lost");
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test]
async fn c9_lost_resolves_once_the_store_says_so() {
    let (_model, engine) = model();
    let mutex = lasting(&engine);
    let guard = mutex.lock().await.unwrap();
    assert!(mutex.force_unlock().await.unwrap());
    timeout(LONG / 3 + EPSILON, guard.lost()).await.expect("told within a third of the TTL");
    assert!(!guard.is_held());
}

#[tokio::test]
async fn c2_a_lost_reply_never_makes_a_second_hold() {
    let (model, engine) = model();
    let semaphore = engine.semaphore("s", SemaphoreOptions::new(5).ttl(LONG)).unwrap();
    for lost in 1..=3 {
        let next = model.faults.calls.load(SeqCst) + 1;
        model.faults.lose_reply.store(next, SeqCst);
        let permit = semaphore.acquire().await.unwrap();
        let inspection = semaphore.inspect().await.unwrap();
        assert_eq!(inspection.holders.len(), 1, "round {lost}: {inspection:?}");
        assert_eq!(inspection.holders[0].ticket, Some(permit.ticket()));
        permit.release().await.unwrap();
    }
}

#[tokio::test]
async fn c3_a_lost_reply_of_a_try_is_unknown_and_leaves_nothing() {
    let (model, engine) = model();
    let mutex = mutex(&engine);
    model.faults.lose_replies.store(true, SeqCst);
    let error = mutex.try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    assert_eq!(
        (error.operation(), error.store(), error.name()),
        (Some("try_lock"), Some("model"), Some("m"))
    );
    model.faults.lose_replies.store(false, SeqCst);
    empty(&model).await;
    assert!(mutex.try_lock().await.unwrap().is_some());
}

/// As where a connection ends with the answer: another one tells what came of it.
#[tokio::test]
async fn c28_a_try_whose_reply_was_lost_in_time_is_asked_for_once_more() {
    let (model, engine) = model();
    let mutex = mutex(&engine);
    model.faults.lose_reply.store(1, SeqCst);
    let guard = mutex.try_lock().await.unwrap().unwrap();
    assert_eq!(mutex.inspect().await.unwrap().holders.len(), 1);
    guard.release().await.unwrap();
    empty(&model).await;
}

/// That the store is away then says nothing of the first request.
#[tokio::test]
async fn c3_a_try_whose_reply_was_lost_before_an_outage_is_unknown() {
    let (model, engine) = model();
    let mutex = mutex(&engine);
    model.faults.lose_reply.store(1, SeqCst);
    model.faults.delay_ms.store(50, SeqCst);
    let trying = tokio::spawn(async move { mutex.try_lock().await });
    while model.faults.calls.load(SeqCst) < 1 {
        tokio::task::yield_now().await;
    }
    model.faults.away.store(true, SeqCst);
    let error = trying.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    assert!(model.faults.calls.load(SeqCst) >= 2, "it was asked for again");
    model.faults.away.store(false, SeqCst);
    empty(&model).await;
}

#[tokio::test]
async fn c11_a_release_whose_reply_was_lost_is_not_reported_lost() {
    let (model, engine) = model();
    let guard = lasting(&engine).lock().await.unwrap();
    model.faults.lose_reply.store(model.faults.calls.load(SeqCst) + 1, SeqCst);
    guard.release().await.unwrap();
    empty(&model).await;
}

#[tokio::test]
async fn c4_dropped_at_any_poll_nothing_is_left() {
    for held in [false, true] {
        for polls in 0..12 {
            let (model, engine) = model();
            model.faults.delay_ms.store(8, SeqCst);
            let mutex = mutex(&engine);
            let first = if held { Some(mutex.lock().await.unwrap()) } else { None };
            drop_after(polls, mutex.lock()).await;
            drop_after(polls, mutex.lock_for(TTL)).await;
            drop(first);
            empty(&model).await;
        }
    }
}

#[tokio::test]
async fn c14_without_wake_ups_the_poll_floor_serves() {
    let (model, engine) = model();
    model.faults.no_wake.store(true, SeqCst);
    let mutex = lasting(&engine);
    let guard = mutex.lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = Arc::clone(&mutex);
        async move { mutex.lock().await.map(drop) }
    });
    sleep(TTL / 2).await;
    guard.release().await.unwrap();
    timeout(Duration::from_secs(1) + EPSILON, waiting).await.expect("by a poll").unwrap().unwrap();
}

#[tokio::test]
async fn c14_waiters_sleep_until_woken() {
    let (model, engine) = model();
    let mutex = lasting(&engine);
    let guard = mutex.lock().await.unwrap();
    let waiters: Vec<_> = (0..100)
        .map(|_| {
            let mutex = Arc::clone(&mutex);
            tokio::spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() })
        })
        .collect();
    while model.left() != (1, 100) {
        sleep(Duration::from_millis(5)).await;
    }
    let acquires = model.faults.acquires.load(SeqCst);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(model.faults.acquires.load(SeqCst), acquires, "no waiter asks by itself");
    guard.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    let asked = model.faults.acquires.load(SeqCst) - acquires;
    assert!(asked <= 130, "{asked} acquires for 100 grants");
}

#[tokio::test]
async fn c5_a_lost_queue_is_joined_again() {
    let (model, engine) = model();
    let mutex = lasting(&engine);
    let guard = mutex.lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = Arc::clone(&mutex);
        async move { mutex.lock().await.map(drop) }
    });
    sleep(TTL).await;
    model.records.lock().unwrap().values_mut().for_each(|record| {
        record.queue.clear();
        record.holds.clear();
        record.epoch += 1;
    });
    timeout(Duration::from_secs(2), waiting).await.expect("asks again").unwrap().unwrap();
    timeout(LONG / 3 + EPSILON, guard.lost()).await.expect("the holder is told");
}

#[tokio::test]
async fn c17_limits_hold_while_the_store_is_away_or_slow() {
    let (model, engine) = model();
    let mutex = mutex(&engine);
    model.faults.away.store(true, SeqCst);
    let limit = Duration::from_millis(150);
    let watch = Stopwatch::start();
    assert_eq!(mutex.lock_for(limit).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(watch.elapsed() <= limit + EPSILON);
    model.faults.away.store(false, SeqCst);
    model.faults.delay_ms.store(10_000, SeqCst);
    let watch = Stopwatch::start();
    assert_eq!(mutex.lock_for(limit).await.unwrap_err().kind(), ErrorKind::Unknown);
    assert!(watch.elapsed() <= limit + EPSILON);
}

#[tokio::test]
async fn c17_lock_rides_out_an_outage() {
    let (model, engine) = model();
    let mutex = mutex(&engine);
    model.faults.away.store(true, SeqCst);
    let waiting = tokio::spawn(async move { mutex.lock().await.map(drop) });
    sleep(TTL).await;
    model.faults.away.store(false, SeqCst);
    timeout(Duration::from_secs(1) + EPSILON, waiting).await.expect("works within 1 s").unwrap().unwrap();
}

#[tokio::test]
async fn c6_a_grant_that_came_late_is_asked_again() {
    let (model, engine) = model();
    let semaphore = engine.semaphore("s", SemaphoreOptions::new(1).ttl(TTL)).unwrap();
    model.faults.delay_ms.store(400, SeqCst);
    let slow = tokio::spawn(async move {
        let mut acquiring = pin!(semaphore.acquire());
        // It is judged in the poll that hands it out: not before that began.
        let (permit, judged) = poll_fn(|cx| {
            let before = std::time::Instant::now();
            acquiring.as_mut().poll(cx).map(|permit| (permit.unwrap(), before))
        })
        .await;
        permit.deadline().unwrap().saturating_duration_since(judged)
    });
    sleep(Duration::from_millis(250)).await;
    model.faults.delay_ms.store(0, SeqCst);
    let left = slow.await.unwrap();
    assert!(left >= TTL / 2 - TTL / 10, "half of the TTL is ahead, less the deadline's margin: {left:?}");
}

#[tokio::test]
async fn c12_guards_dropped_as_the_runtime_ends_are_released() {
    let (model, engine) = model();
    let worker = std::thread::spawn({
        let mutex = mutex(&engine);
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let guard = runtime.block_on(mutex.lock()).unwrap();
            drop(runtime);
            drop(guard);
        }
    });
    worker.join().unwrap();
    empty(&model).await;
}

#[tokio::test]
async fn c12_close_ends_guards_waiters_and_new_calls() {
    let (model, engine) = model();
    let mutex = lasting(&engine);
    let guard = mutex.lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = Arc::clone(&mutex);
        async move { mutex.lock().await.map(drop) }
    });
    while model.left() != (1, 1) {
        sleep(Duration::from_millis(5)).await;
    }
    sleep(Duration::from_millis(50)).await;
    engine.close().await.unwrap();
    assert!(!guard.is_held());
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(mutex.try_lock().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(engine.mutex("other", MutexOptions::default()).unwrap_err().kind(), ErrorKind::Closed);
    empty(&model).await;
}

#[tokio::test]
async fn c24_detach_moves_the_hold_to_a_ticket_that_one_attach_takes() {
    let (_model, engine) = model();
    let mutex = lasting(&engine);
    let guard = mutex.lock().await.unwrap();
    let token = guard.fencing_token();
    let detached = guard.detach(Ttl::new(LONG).unwrap()).await.unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none());
    let guard = mutex.attach(&detached).await.unwrap();
    assert_eq!(guard.fencing_token(), token);
    assert_eq!(mutex.attach(&detached).await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn m5_reenter_releases_with_the_last() {
    let (model, engine) = model();
    let mutex = lasting(&engine);
    let guard = mutex.lock().await.unwrap();
    let again = guard.reenter();
    assert!(mutex.try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(again.is_held());
    assert_eq!(model.left(), (1, 0));
    drop(again);
    empty(&model).await;
}

#[tokio::test]
async fn m4_run_stops_at_the_loss() {
    let (_model, engine) = model();
    let options = MutexOptions::default().ttl(TTL).renew(false);
    let guard = engine.mutex("m", options).unwrap().lock().await.unwrap();
    let stopped = timeout(belief() + EPSILON, guard.run(std::future::pending::<()>()));
    assert_eq!(stopped.await.expect("told at D").unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test]
async fn c13_max_hold_ends_renewal() {
    let (_model, engine) = model();
    let options = MutexOptions::default().ttl(LONG).max_hold(LONG * 2);
    let guard = engine.mutex("m", options).unwrap().lock().await.unwrap();
    let granted = std::time::Instant::now();
    timeout(LONG * 2 + EPSILON, guard.lost()).await.expect("not beyond max_hold");
    // By its last deadline, which the machine does not move when it stands still.
    let held = guard.deadline().unwrap() - granted;
    assert!((LONG + LONG / 3..=LONG * 2).contains(&held), "renewed until max_hold: {held:?}");
}
