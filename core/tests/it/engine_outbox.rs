//! What is delivered when nobody waits for it: one thing stuck keeps no other.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time and fail by panics"
)]

use std::time::Duration;

use crate::model::faults::Stuck;
use crate::model::{Model, model};
use stanchion_conformance::stopwatch::{Stopwatch, timeout};
use stanchion_core::engine::Engine;
use stanchion_core::{LimiterOptions, MutexGuard, MutexOptions, Quota, Reservation};
use tokio::time::sleep;

/// What is stuck takes a second.
const SOON: Duration = Duration::from_millis(300);

async fn lock(engine: &Engine, name: &str) -> MutexGuard {
    engine.mutex(name, MutexOptions::default()).unwrap().lock().await.unwrap()
}

/// A place in the future of a limiter.
async fn place(engine: &Engine, name: &str) -> Reservation {
    let limiter = engine.limiter(name, LimiterOptions::new(Quota::per_hour(1).burst(1))).unwrap();
    limiter.wait().await.unwrap();
    limiter.reserve_n(1, Duration::MAX).await.unwrap().unwrap()
}

/// An acquisition in the queue of a mutex that somebody holds.
async fn waiter(model: &Model, engine: &Engine, name: &str) -> tokio::task::JoinHandle<()> {
    let mutex = engine.mutex(name, MutexOptions::default()).unwrap();
    let waiting = tokio::spawn(async move { drop(mutex.lock().await) });
    until(|| queued(model, name) == 1).await;
    waiting
}

async fn until(seen: impl Fn() -> bool + Send + Sync) {
    let wait = async {
        while !seen() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(SOON, wait).await.expect("nothing keeps it");
}

fn of<T>(model: &Model, name: &str, count: impl Fn(&crate::model::Record) -> T) -> T {
    let records = model.records.lock().unwrap();
    count(records.iter().find(|(object, _)| object.name.as_str() == name).unwrap().1)
}

fn held(model: &Model, name: &str) -> usize {
    of(model, name, |record| record.holds.len())
}

fn queued(model: &Model, name: &str) -> usize {
    of(model, name, |record| record.queue.len())
}

fn missing(model: &Model, name: &str) -> u64 {
    let names = model.limits.names.lock().unwrap();
    let limit = names.iter().find(|(object, _)| object.name.as_str() == name).unwrap().1;
    let verdict = limit.bucket.as_ref().unwrap().peek(model.limits.now());
    Duration::from_micros(verdict.reset_after).as_secs().div_ceil(60 * 60)
}

fn stick(model: &Model, stuck: Option<(Stuck, usize)>) {
    *model.faults.stuck.lock().unwrap() = stuck;
}

#[tokio::test]
async fn c4_c12_a_lane_that_is_stuck_keeps_no_other() {
    let (model, engine) = model();
    let (dead, live) = (lock(&engine, "1/m").await, lock(&engine, "2/m").await);
    let (_keep, _keep_too) = (lock(&engine, "1/q").await, lock(&engine, "2/q").await);
    let waiters = [waiter(&model, &engine, "1/q").await, waiter(&model, &engine, "2/q").await];
    let places = [place(&engine, "1/l").await, place(&engine, "2/l").await];
    stick(&model, Some((Stuck::Release, 1)));
    drop(dead);
    sleep(SOON / 10).await;
    drop(live);
    until(|| held(&model, "2/m") == 0).await;
    assert_eq!(held(&model, "1/m"), 1);
    stick(&model, Some((Stuck::Cancel, 1)));
    for waiter in waiters {
        waiter.abort();
        sleep(SOON / 10).await;
    }
    until(|| queued(&model, "2/q") == 0).await;
    assert_eq!(queued(&model, "1/q"), 1);
    stick(&model, Some((Stuck::Refund, 1)));
    for place in places {
        drop(place);
        sleep(SOON / 10).await;
    }
    until(|| missing(&model, "2/l") == 1).await;
    assert_eq!(missing(&model, "1/l"), 2);
    stick(&model, None);
    engine.close().await.unwrap();
    assert_eq!((held(&model, "1/m"), queued(&model, "1/q"), missing(&model, "1/l")), (0, 0, 1));
}

#[tokio::test]
async fn c4_c12_a_kind_that_is_stuck_keeps_no_other() {
    let (model, engine) = model();
    let (dead, live) = (lock(&engine, "m").await, lock(&engine, "n").await);
    let _keep = lock(&engine, "q").await;
    let waiter = waiter(&model, &engine, "q").await;
    let place = place(&engine, "l").await;
    stick(&model, Some((Stuck::Release, 0)));
    drop(dead);
    sleep(SOON / 10).await;
    waiter.abort();
    drop(place);
    until(|| queued(&model, "q") == 0 && missing(&model, "l") == 1).await;
    stick(&model, None);
    // Of its own kind and lane it keeps the others until its time limit, no longer.
    let watch = Stopwatch::start();
    drop(live);
    engine.close().await.unwrap();
    assert!(watch.elapsed() < Duration::from_millis(1500), "{:?}", watch.elapsed());
    assert_eq!((held(&model, "m"), held(&model, "n")), (0, 0));
}
