//! Concurrent steps leave together, each caller gets its own answer, and nobody waits for whom it
//! need not wait for.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use crate::model::{model, model_within};
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::{Stopwatch, timeout};
use stanchion_conformance::support::AT_ONCE;
use stanchion_core::{ErrorKind, Mutex, MutexOptions, Semaphore, SemaphoreOptions};
use tokio::task::JoinSet;
use tokio::time::Instant;

const MANY: usize = 64;
/// A step takes so long in these tests, in ms.
const STEP: u64 = 40;
/// A time limit that no request here reaches, also where the machine stands still.
const LONG: Duration = Duration::from_secs(60);
/// Less than the time after which a request is taken for stuck, and may be overtaken.
const TOGETHER: Duration = Duration::from_millis(15);

async fn poll_once<F: Future>(future: &mut std::pin::Pin<&mut F>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

#[tokio::test]
async fn c15_concurrent_requests_leave_together() {
    let (model, engine) = model_within(LONG);
    model.faults.delay_ms.store(STEP, SeqCst);
    let mut callers = JoinSet::new();
    for index in 0..MANY {
        let mutex = engine.mutex(&format!("m{index}"), MutexOptions::default()).unwrap();
        callers.spawn(async move { mutex.lock().await.unwrap().release().await });
    }
    while let Some(caller) = callers.join_next().await {
        caller.unwrap().unwrap();
    }
    let calls = model.faults.calls.load(SeqCst);
    assert!(calls <= 8, "{calls} calls for {MANY} locks and {MANY} releases");
    assert_eq!(model.left(), (0, 0));
}

#[tokio::test]
async fn l5_each_caller_gets_its_own_answer_in_order_of_arrival() {
    let (model, engine) = model_within(LONG);
    model.faults.delay_ms.store(STEP, SeqCst);
    let semaphore = engine.semaphore("s", SemaphoreOptions::new(10)).unwrap();
    let mut callers = JoinSet::new();
    for index in 0..MANY {
        let semaphore = Arc::clone(&semaphore);
        callers.spawn(async move { (index, semaphore.try_acquire_many(3).await.unwrap()) });
    }
    let mut permits = Vec::new();
    while let Some(caller) = callers.join_next().await {
        let (index, permit) = caller.unwrap();
        permits.extend(permit.map(|permit| (permit.fencing_token(), index, permit)));
    }
    permits.sort_by_key(|(token, ..)| *token);
    let granted: Vec<_> = permits.iter().map(|(_, index, _)| *index).collect();
    assert_eq!(granted, [0, 1, 2], "the first three of {MANY} fit, in the order in which they came");
}

#[tokio::test]
async fn c17_one_caller_alone_never_waits_for_company() {
    let (model, engine) = model();
    let mutex = engine.mutex("m", MutexOptions::default()).unwrap();
    for round in 1..=20 {
        drop(mutex.try_lock().await.unwrap().unwrap().release().await);
        assert_eq!(model.faults.calls.load(SeqCst), 2 * round);
    }
}

#[tokio::test]
async fn c5_a_caller_that_is_not_polled_keeps_nobody() {
    let (model, engine) = model_within(LONG);
    let stuck = engine.mutex("stuck", MutexOptions::default()).unwrap();
    let other = engine.mutex("other", MutexOptions::default()).unwrap();
    model.faults.delay_ms.store(STEP, SeqCst);
    let mut future = pin!(stuck.try_lock());
    assert!(!poll_once(&mut future).await, "its request is under way");
    let watch = Stopwatch::start();
    for _ in 0..3 {
        other.try_lock().await.unwrap().unwrap().release().await.unwrap();
    }
    // Otherwise they would wait until it is polled again.
    assert!(watch.elapsed() < AT_ONCE + Duration::from_millis(6 * STEP), "{:?}", watch.elapsed());
    assert!(future.await.unwrap().is_some());
}

#[tokio::test]
async fn c4_a_caller_dropped_in_the_queue_leaves_nothing() {
    let (model, engine) = model();
    model.faults.delay_ms.store(STEP, SeqCst);
    let mutexes: Vec<Arc<dyn Mutex>> =
        (0..8).map(|index| engine.mutex(&format!("m{index}"), MutexOptions::default()).unwrap()).collect();
    let mut futures: Vec<_> = mutexes.iter().map(|mutex| Box::pin(mutex.lock())).collect();
    for future in &mut futures {
        assert!(!poll_once(&mut future.as_mut()).await);
    }
    drop(futures);
    model.faults.delay_ms.store(0, SeqCst);
    timeout(Duration::from_secs(1) + EPSILON, async {
        while model.left() != (0, 0) || engine.ping().await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("nothing is left within a second");
    // And nothing comes later.
    tokio::time::sleep(Duration::from_millis(2 * STEP)).await;
    assert_eq!(model.left(), (0, 0));
}

#[tokio::test]
async fn c17_who_waits_behind_a_request_keeps_its_own_time_limit() {
    let (model, engine) = model();
    model.faults.delay_ms.store(3_000, SeqCst);
    let mutex = engine.mutex("m", MutexOptions::default()).unwrap();
    let (first, second) = (Arc::clone(&mutex), mutex);
    let first = tokio::spawn(async move { first.try_lock().await });
    tokio::task::yield_now().await;
    let watch = Stopwatch::start();
    let error = second.lock_for(Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown), "{error}");
    assert!(watch.elapsed() < EPSILON + Duration::from_millis(100), "{:?}", watch.elapsed());
    assert_eq!(first.await.unwrap().unwrap_err().kind(), ErrorKind::Unknown);
}

#[test]
fn c13_a_blocked_runtime_keeps_only_its_own_callers() {
    let (model, engine) = model();
    model.faults.delay_ms.store(STEP, SeqCst);
    let (blocked, is_blocked) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let stuck = engine.mutex("stuck", MutexOptions::default()).unwrap();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut future = pin!(stuck.try_lock());
            assert!(!poll_once(&mut future).await);
            blocked.send(()).unwrap();
            let _ = ended.recv();
        });
    });
    is_blocked.recv().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mutex = engine.mutex("other", MutexOptions::default()).unwrap();
    runtime.block_on(async {
        let before = model.faults.calls.load(SeqCst);
        let locked = timeout(AT_ONCE, mutex.try_lock()).await;
        let guard = locked.unwrap().unwrap();
        assert!(guard.is_some());
        assert_eq!(model.faults.calls.load(SeqCst), before + 1);
    });
    drop(end);
    thread.join().unwrap();
}

#[tokio::test]
async fn c3_a_request_that_fails_for_all_fails_each_on_its_own() {
    let (model, engine) = model_within(LONG);
    model.faults.delay_ms.store(STEP, SeqCst);
    let semaphore = engine.semaphore("s", SemaphoreOptions::new(100)).unwrap();
    model.faults.lose_replies.store(true, SeqCst);
    let mut callers = JoinSet::new();
    for _ in 0..10 {
        let semaphore = Arc::clone(&semaphore);
        callers.spawn(async move { semaphore.try_acquire().await });
    }
    while let Some(caller) = callers.join_next().await {
        let error = caller.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Unknown, Some("try_acquire")));
    }
    model.faults.lose_replies.store(false, SeqCst);
    model.faults.delay_ms.store(0, SeqCst);
    timeout(Duration::from_secs(1) + EPSILON, async {
        while model.left() != (0, 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("what was granted without anybody's knowledge is given back");
}

/// Pairs of acquires and releases by many tasks, until a time has passed.
async fn pairs(semaphore: &Arc<dyn Semaphore>, time: Duration) {
    let end = Instant::now() + time;
    let mut callers = JoinSet::new();
    for index in 0..MANY {
        let semaphore = Arc::clone(semaphore);
        // Without a difference they would all come and go together.
        let held = Duration::from_millis(index as u64 % 16);
        callers.spawn(async move {
            while Instant::now() < end {
                let permit = semaphore.acquire().await.unwrap();
                tokio::time::sleep(held).await;
                permit.release().await.unwrap();
            }
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.unwrap();
    }
}

/// How many requests of several entries there were, and how many pairs of acquires and releases
/// overlapped. A request that overtakes another one began later, and does not count.
fn overlaps(flights: &[(bool, Instant, Instant)]) -> (usize, usize) {
    let overlap = |(acquires, from, until): &(bool, Instant, Instant)| {
        let others = flights.iter().filter(|other| *acquires && !other.0);
        let began_together = |other: &Instant| (*other.max(from)).duration_since(*other.min(from)) < TOGETHER;
        others.filter(|(_, other, end)| other < until && from < end && began_together(other)).count()
    };
    (flights.len(), flights.iter().map(overlap).sum())
}

#[tokio::test]
async fn acquires_and_releases_leave_together_where_the_store_joins_them() {
    for exchanges in [true, false] {
        let (model, engine) = model();
        model.faults.exchanges.store(exchanges, SeqCst);
        model.faults.delay_ms.store(6, SeqCst);
        let semaphore = engine.semaphore("s", SemaphoreOptions::new(1_000)).unwrap();
        let requests = || model.faults.flights.lock().unwrap().len();
        // A machine that stands still for a moment changes a small part of that number.
        while requests() < 60 {
            pairs(&semaphore, Duration::from_millis(200)).await;
        }
        let (flights, overlaps) = overlaps(&model.faults.flights.lock().unwrap());
        // On a machine that stands still one may be taken for stuck.
        assert_eq!(overlaps <= flights / 10, exchanges, "{overlaps} overlaps of {flights} requests");
        assert_eq!(model.left(), (0, 0));
    }
}

#[tokio::test]
async fn c3_a_slow_request_keeps_the_other_step_for_a_moment_only() {
    let (model, engine) = model_within(LONG);
    model.faults.exchanges.store(true, SeqCst);
    let semaphore = engine.semaphore("s", SemaphoreOptions::new(1_000)).unwrap();
    let mut permits = Vec::new();
    for _ in 0..MANY {
        permits.push(semaphore.acquire().await.unwrap());
    }
    // Several acquires are on their way, and take a minute.
    model.faults.delay_ms.store(60_000, SeqCst);
    let mut callers = JoinSet::new();
    for _ in 0..MANY {
        let semaphore = Arc::clone(&semaphore);
        callers.spawn(async move { semaphore.acquire().await.map(drop) });
    }
    while model.faults.asked.lock().unwrap().len() < 2 * MANY {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    model.faults.delay_ms.store(10, SeqCst);
    let mut releases = JoinSet::new();
    for permit in permits {
        releases.spawn(permit.release());
    }
    let released = timeout(EPSILON, async {
        while let Some(release) = releases.join_next().await {
            release.unwrap().unwrap();
        }
    });
    released.await.expect("the releases do not wait for the acquires");
    assert!(callers.try_join_next().is_none(), "the acquires are still under way");
}

#[tokio::test]
async fn c17_a_runtime_whose_turns_take_long_serves_its_callers() {
    for exchanges in [true, false] {
        let (model, engine) = model();
        model.faults.exchanges.store(exchanges, SeqCst);
        model.faults.delay_ms.store(4, SeqCst);
        let hog = tokio::spawn(async {
            loop {
                std::thread::sleep(Duration::from_millis(30));
                tokio::task::yield_now().await;
            }
        });
        let semaphore = engine.semaphore("s", SemaphoreOptions::new(1_000)).unwrap();
        let served = timeout(Duration::from_secs(5), pairs(&semaphore, Duration::from_millis(500)));
        served.await.expect("nobody is overtaken for ever");
        hog.abort();
        assert_eq!(model.left(), (0, 0));
    }
}
