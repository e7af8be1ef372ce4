//! Stores whose steps panic, hang or are slow: what the engine makes of them.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::model::drop_after::drop_after;
use crate::model::{Model, Stuck, model, model_within};
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::{Stopwatch, timeout};
use stanchion_core::engine::{Background, Engine};
use stanchion_core::{
    Capabilities, ErrorKind, Mutex, MutexMode, MutexOptions, Ttl, WaitGroup, WaitGroupOptions,
};
use tokio::time::sleep;

/// Longer than a test waits: what is ended by it alone was not ended.
const LONG: Duration = Duration::from_secs(20);
/// The poll floor, with ε.
const POLLED: Duration = Duration::from_secs(1).saturating_add(EPSILON);
const SHORT: Duration = Duration::from_millis(3_600);

fn mutex(engine: &Engine, name: &str, ttl: Duration) -> Arc<dyn Mutex> {
    engine.mutex(name, MutexOptions::default().ttl(ttl)).unwrap()
}

fn group(engine: &Engine, name: &str) -> Arc<dyn WaitGroup> {
    engine.wait_group(name, WaitGroupOptions::default()).unwrap()
}

fn stick(model: &Model, step: Stuck, lane: usize) {
    model.faults.for_ever.store(true, SeqCst);
    *model.faults.stuck.lock().unwrap() = Some((step, lane));
}

#[tokio::test]
async fn c27_a_step_that_panics_loses_the_guards_and_ends_all_calls() {
    for step in [Stuck::Renew, Stuck::Poll, Stuck::Look, Stuck::Wake, Stuck::Release, Stuck::Cancel] {
        let (model, engine) = model();
        // A renewal is due soon, long before the lease ends: a hold that ended by itself is not
        // renewed.
        let lock = mutex(&engine, "a", SHORT);
        let members = group(&engine, "g");
        let (guard, member) = (lock.lock().await.unwrap(), members.add().await.unwrap());
        let waiter = Arc::clone(&lock);
        let waiting = tokio::spawn(async move { waiter.lock().await.map(drop) });
        let ending = tokio::spawn(async move { members.wait().await.map(drop) });
        sleep(Duration::from_millis(50)).await;
        let other = mutex(&engine, "b", LONG).lock().await.unwrap();
        *model.faults.panics.lock().unwrap() = Some(step);
        // Where nothing else sends that step.
        drop(other);
        drop(drop_after(1, lock.lock()).await);

        // The next renewal may be a whole interval away.
        let told = timeout(SHORT / 3 + EPSILON, guard.lost()).await;
        told.unwrap_or_else(|_| panic!("{step:?}: the holder is told"));
        timeout(POLLED, member.lost()).await.unwrap_or_else(|_| panic!("{step:?}: the member is told"));
        for waiting in [waiting, ending] {
            let ended = timeout(POLLED, waiting).await.unwrap_or_else(|_| panic!("{step:?}: the wait ends"));
            assert_eq!(ended.unwrap().unwrap_err().kind(), ErrorKind::Closed, "{step:?}");
        }
        let error = lock.try_lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{step:?}");
        assert!(error.to_string().contains("panicked"), "{step:?}: {error}");
        assert!(engine.ping().await.is_err() && engine.mutex("c", MutexOptions::default()).is_err());
    }
}

#[tokio::test]
async fn c17_a_poll_that_hangs_is_ended() {
    let (model, engine) = model_within(Duration::from_millis(200));
    model.faults.no_wake.store(true, SeqCst);
    let lock = mutex(&engine, "a", LONG);
    let guard = lock.lock().await.unwrap();
    stick(&model, Stuck::Poll, 0);
    let waiting = tokio::spawn({
        let lock = Arc::clone(&lock);
        async move { lock.lock().await }
    });
    while model.faults.polls.load(SeqCst) == 0 {
        sleep(Duration::from_millis(5)).await;
    }
    *model.faults.stuck.lock().unwrap() = None;
    guard.release().await.unwrap();
    drop(timeout(POLLED, waiting).await.expect("the next poll finds it").unwrap().unwrap());
}

#[tokio::test]
async fn c27_a_lane_that_is_silent_delays_no_other_lane() {
    // The first renewal, poll and look of the silent lane last as long as this.
    let (model, engine) = model_within(LONG);
    model.faults.no_wake.store(true, SeqCst);
    for step in [Stuck::Poll, Stuck::Look] {
        let locks = [1, 2].map(|lane| mutex(&engine, &format!("{lane}/{step:?}"), LONG));
        let groups = [1, 2].map(|lane| group(&engine, &format!("{lane}/{step:?}")));
        let mut held = Vec::new();
        let mut waits = Vec::new();
        for (lock, group) in locks.iter().zip(&groups) {
            held.push((lock.lock().await.unwrap(), group.add().await.unwrap()));
            let (lock, group) = (Arc::clone(lock), Arc::clone(group));
            waits.push((
                tokio::spawn(async move { lock.lock().await }),
                tokio::spawn(async move { group.wait().await }),
            ));
        }
        stick(&model, step, 1);
        sleep(Duration::from_millis(400)).await;
        let ((guard, member), (waiting, ending)) = (held.pop().unwrap(), waits.pop().unwrap());
        guard.release().await.unwrap();
        member.done().await.unwrap();
        drop(timeout(POLLED, waiting).await.unwrap_or_else(|_| panic!("{step:?}: a turn")).unwrap().unwrap());
        timeout(POLLED, ending).await.unwrap_or_else(|_| panic!("{step:?}: the end")).unwrap().unwrap();
        *model.faults.stuck.lock().unwrap() = None;
        waits.into_iter().for_each(|(waiting, ending)| {
            waiting.abort();
            ending.abort();
        });
    }
}

#[tokio::test]
async fn c27_a_lane_that_is_silent_costs_no_hold_of_another() {
    let ttl = Duration::from_secs(5);
    let (model, engine) = model_within(LONG);
    let silent = mutex(&engine, "1/a", ttl).lock().await.unwrap();
    let other = mutex(&engine, "2/a", ttl).lock().await.unwrap();
    stick(&model, Stuck::Renew, 1);
    timeout(ttl + EPSILON, silent.lost()).await.expect("it is not renewed");
    assert!(other.is_held(), "it was to be renewed at the same time");
}

#[tokio::test]
async fn c27_an_entry_that_is_not_answered_costs_no_hold_that_is_renewed_with_it() {
    // The requests in parts, and the single ones, come well before the leases end.
    let (model, engine) = model_within(Duration::from_millis(300));
    let ttl = Duration::from_secs(5);
    let mut held = Vec::new();
    for name in 0..40 {
        held.push(mutex(&engine, &format!("n{name}"), ttl).lock().await.unwrap());
    }
    *model.faults.locked.lock().unwrap() = Some("n7");
    timeout(ttl + EPSILON, held[7].lost()).await.expect("it is not renewed");
    sleep(ttl).await;
    let lost: Vec<_> = (0..40).filter(|name| !held[*name].is_held()).collect();
    assert_eq!(lost, [7]);
    let sizes: Vec<_> = model.faults.renewed.lock().unwrap().iter().map(Vec::len).collect();
    assert!(sizes.iter().filter(|size| **size == 1).count() >= 39, "single ones: {sizes:?}");
}

#[tokio::test]
async fn c17_a_store_too_slow_for_the_lease_is_asked_three_times_at_most() {
    let (model, engine) = model();
    let lock = mutex(&engine, "a", Ttl::MIN);
    // More than half of the lease, and less than the time limit of the request, which is ended at
    // 83 ms.
    model.faults.delay_ms.store(60, SeqCst);
    let error = lock.try_lock().await.unwrap_err();
    assert!(model.faults.acquires.load(SeqCst) <= 3, "{}", model.faults.acquires.load(SeqCst));
    match error.kind() {
        ErrorKind::Unavailable => assert!(error.to_string().contains("TTL of 100ms"), "{error}"),
        // On a machine that is slower still.
        kind => assert_eq!(kind, ErrorKind::Unknown),
    }
    model.faults.delay_ms.store(0, SeqCst);
    let hold = timeout(POLLED, mutex(&engine, "a", LONG).lock()).await.expect("the grant was withdrawn");
    let detached = hold.unwrap().detach(Ttl::DEFAULT).await.unwrap();
    engine.drain().await.unwrap();
    let before = model.faults.calls.load(SeqCst);
    model.faults.delay_ms.store(600, SeqCst);
    let attaching = mutex(&engine, "a", Duration::from_secs(1));
    let error =
        timeout(Duration::from_secs(3), attaching.attach(&detached)).await.expect("it ends").unwrap_err();
    assert!(!error.kind().is_final(), "{error}");
    assert!(model.faults.calls.load(SeqCst) - before <= 4, "3 attempts, and a release of what is in doubt");
}

#[tokio::test]
async fn c28_calls_in_doubt_are_bounded() {
    let (model, engine) = model();
    let lock = mutex(&engine, "a", LONG);
    model.faults.lose_requests.store(true, SeqCst);
    assert_eq!(lock.try_lock().await.unwrap_err().kind(), ErrorKind::Unknown);
    // The calls in doubt are bounded from the first of their requests on that failed: it is made a
    // second time.
    while model.faults.calls.load(SeqCst) < 3 {
        sleep(Duration::from_millis(1)).await;
    }
    let mut refused = 0;
    for _ in 1..10_500 {
        match lock.try_lock().await.unwrap_err().kind() {
            ErrorKind::Overloaded => refused += 1,
            kind => assert_eq!(kind, ErrorKind::Unknown),
        }
    }
    // Those of a request under way do not count: 256 at most.
    assert!(refused >= 10_500 - 10_000 - 256, "{refused}: the last ones are refused");
    let waiting = tokio::spawn({
        let lock = Arc::clone(&lock);
        async move { lock.lock().await }
    });
    sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished(), "a call without a time limit waits for room");
    model.faults.lose_requests.store(false, SeqCst);
    drop(timeout(Duration::from_secs(5), waiting).await.expect("there is room").unwrap().unwrap());
}

#[tokio::test]
async fn c17_a_short_lease_ends_no_call_that_leaves_with_it() {
    let (model, engine) = model_within(LONG);
    // Longer than the time limit of the short lease.
    model.faults.delay_ms.store(200, SeqCst);
    // Where the machine stands still, the call with the short lease can end before it leaves.
    for round in 0..20 {
        let [first, short, long] = [("a", LONG), ("b", Ttl::MIN), ("c", LONG)]
            .map(|(name, ttl)| mutex(&engine, &format!("{name}{round}"), ttl));
        let (first, short, long) = tokio::join!(first.try_lock(), short.try_lock(), long.try_lock());
        assert!(short.is_err());
        assert!(first.unwrap().is_some() && long.unwrap().is_some());
        if model.faults.flights.lock().unwrap().iter().any(|(acquires, ..)| *acquires) {
            return;
        }
    }
    panic!("no two left together");
}

/// An engine over a model of its own, whose last drop waits for so long.
fn draining(drain: Duration) -> (Arc<Model>, Engine) {
    let model = Model::new();
    let steps = model.steps(Duration::from_secs(2));
    let own = Background { wake: Some(model.wakes()), drain, ..Background::new(Arc::clone(&steps)) };
    (model, Engine::start(Capabilities::full("model", MutexMode::Lease), steps, own).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn c12_a_long_drain_outlasts_a_short_outage() {
    let (model, engine) = draining(LONG);
    let guard = mutex(&engine, "a", LONG * 2).lock().await.unwrap();
    model.faults.away.store(true, SeqCst);
    let dropping = tokio::task::spawn_blocking(move || drop((guard, engine)));
    sleep(Duration::from_secs(3)).await;
    assert!(!dropping.is_finished(), "the store is away");
    model.faults.away.store(false, SeqCst);
    timeout(POLLED, dropping).await.expect("the store is back").unwrap();
    assert_eq!(model.left(), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn c12_the_last_drop_waits_for_no_rest_between_two_attempts() {
    let drops: Vec<_> = (0..8)
        .map(|_| {
            tokio::spawn(async {
                let (model, engine) = draining(LONG);
                let (guard, other) =
                    (mutex(&engine, "a", LONG).lock().await.unwrap(), mutex(&engine, "b", LONG).lock().await);
                model.faults.away.store(true, SeqCst);
                drop(guard);
                // The pause between two attempts is half a second by now.
                sleep(Duration::from_millis(1_500)).await;
                model.faults.away.store(false, SeqCst);
                let watch = Stopwatch::start();
                tokio::task::spawn_blocking(move || drop((other, engine))).await.unwrap();
                assert_eq!(model.left(), (0, 0));
                watch.elapsed()
            })
        })
        .collect();
    let mut waited = Duration::ZERO;
    for dropped in drops {
        waited += dropped.await.unwrap();
    }
    assert!(waited < Duration::from_secs(1), "a rest lasts a quarter of a second on average: {waited:?}");
}

#[tokio::test]
async fn c17_times_out_of_range_are_refused() {
    let start = |request_timeout, drain| {
        let steps = Model::new().steps(request_timeout);
        let own = Background { drain, ..Background::new(Arc::clone(&steps)) };
        Engine::start(Capabilities::full("model", MutexMode::Lease), steps, own).map(drop)
    };
    let second = Duration::from_secs(1);
    assert!(start(second, Duration::ZERO).is_ok() && start(second, second * 60).is_ok());
    for (request_timeout, drain) in
        [(Duration::ZERO, second), (second * 3_601, second), (Duration::MAX, second), (second, second * 61)]
    {
        let refused = start(request_timeout, drain).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{request_timeout:?}, {drain:?}");
    }
}
