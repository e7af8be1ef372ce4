//! Places in the queue that no longer have, or no longer know, their waiter.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time and fail by panics"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::model::{Model, model};
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::timeout;
use stanchion_core::engine::Engine;
use stanchion_core::{ErrorKind, Mutex, MutexOptions, Result, Ticket};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_millis(600);
/// What is given up is gone within a second.
const SOON: Duration = Duration::from_secs(1).saturating_add(EPSILON);

fn mutex(engine: &Engine, ttl: Duration) -> Arc<dyn Mutex> {
    engine.mutex("m", MutexOptions::default().ttl(ttl)).unwrap()
}

fn wait_for(mutex: &Arc<dyn Mutex>) -> JoinHandle<Result<()>> {
    let mutex = Arc::clone(mutex);
    tokio::spawn(async move { mutex.lock().await.map(drop) })
}

async fn until(model: &Model, left: (usize, usize), limit: Duration) {
    let seen = async {
        while model.left() != left {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(limit, seen).await.unwrap_or_else(|_| panic!("{left:?} held and queued, not {:?}", model.left()));
}

#[tokio::test]
async fn c4_a_cancel_outlives_an_outage_longer_than_the_lease() {
    let (model, engine) = model();
    let (lasting, mutex) = (mutex(&engine, TTL * 50), mutex(&engine, TTL));
    let guard = lasting.lock().await.unwrap();
    let waiting = wait_for(&mutex);
    until(&model, (1, 1), SOON).await;
    waiting.abort();
    model.faults.away.store(true, SeqCst);
    sleep(TTL * 2).await;
    // The place is durable: only the cancel takes it away.
    model.faults.away.store(false, SeqCst);
    until(&model, (1, 0), SOON).await;
    drop(guard);
}

#[tokio::test]
async fn c4_c5_a_ghost_in_front_is_withdrawn() {
    let (model, engine) = model();
    let mutex = mutex(&engine, TTL * 10);
    let guard = mutex.lock().await.unwrap();
    model.records.lock().unwrap().values_mut().for_each(|record| record.queue.push((Ticket::random(), 1)));
    let waiting = wait_for(&mutex);
    until(&model, (1, 2), SOON).await;
    guard.release().await.unwrap();
    timeout(Duration::from_millis(2500), waiting).await.expect("its turn comes").unwrap().unwrap();
}

#[tokio::test]
async fn c9_an_answer_older_than_the_grant_does_not_end_it() {
    let (model, engine) = model();
    let mutex = mutex(&engine, TTL * 10);
    let first = mutex.lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = Arc::clone(&mutex);
        async move { mutex.lock().await.unwrap() }
    });
    until(&model, (1, 1), SOON).await;
    // One more waiter, so that the name is still asked about after the grant.
    let behind = wait_for(&mutex);
    until(&model, (1, 2), SOON).await;
    let polls = model.faults.polls.load(SeqCst);
    model.faults.delay_ms.store(1000, SeqCst);
    while model.faults.polls.load(SeqCst) == polls {
        sleep(Duration::from_millis(1)).await;
    }
    model.faults.delay_ms.store(0, SeqCst);
    // Free when the poll is executed, granted before it is answered.
    model.records.lock().unwrap().values_mut().for_each(|record| record.holds.clear());
    sleep(Duration::from_millis(700)).await;
    mutex.force_unlock().await.unwrap();
    let guard = waiting.await.unwrap();
    timeout(Duration::from_secs(1), guard.lost()).await.expect_err("the hold stays");
    assert_eq!(model.left(), (1, 1));
    behind.abort();
    drop(first);
}

#[tokio::test]
async fn c27_a_waiter_with_others_in_front_polls_rarely_and_is_heard_often() {
    let (model, engine) = model();
    model.faults.far.store(true, SeqCst);
    let mutex = mutex(&engine, TTL * 10);
    let guard = mutex.lock().await.unwrap();
    let start = Instant::now();
    let waiting = wait_for(&mutex);
    until(&model, (1, 1), SOON).await;
    while model.faults.marks.load(SeqCst) < 6 {
        sleep(Duration::from_millis(5)).await;
    }
    // The first at once, the others 900 ms apart, or a little less to leave with a sign of life.
    let polls = model.faults.polls.load(SeqCst);
    let most = 2 + start.elapsed().as_millis() / 880;
    assert!(u128::from(polls) <= most, "{polls} polls where {most} are enough");
    drop(guard);
    timeout(Duration::from_secs(10), waiting).await.expect("its turn comes").unwrap().unwrap();
}

#[tokio::test]
async fn c5_a_place_lost_between_two_slow_answers_is_noticed() {
    let (model, engine) = model();
    // One answer later than its request by half a lease, the next one not: neither interval on this
    // side is a lease.
    let lease = Duration::from_millis(3500);
    let mutex = mutex(&engine, lease);
    let guard = mutex.lock().await.unwrap();
    let waiting = wait_for(&mutex);
    until(&model, (1, 1), SOON).await;
    let polls = model.faults.polls.load(SeqCst);
    model.faults.delay_ms.store(2800, SeqCst);
    while model.faults.polls.load(SeqCst) < polls + 1 {
        sleep(Duration::from_millis(5)).await;
    }
    sleep(lease / 2 + Duration::from_millis(150)).await;
    model.records.lock().unwrap().values_mut().for_each(|record| record.queue.clear());
    while model.faults.polls.load(SeqCst) < polls + 2 {
        sleep(Duration::from_millis(5)).await;
    }
    model.faults.delay_ms.store(0, SeqCst);
    drop(guard);
    timeout(lease * 3, waiting).await.expect("it asks again").unwrap().unwrap();
}

#[tokio::test]
async fn c12_close_ends_an_acquisition_whose_answer_is_under_way() {
    let (model, engine) = model();
    // Held by somebody else, so that no release of ours wakes the waiter.
    let (holder, mutex) = (mutex(&engine, TTL * 10), mutex(&engine, TTL * 10));
    std::mem::forget(holder.lock().await.unwrap());
    model.records.lock().unwrap().values_mut().for_each(|record| record.holds[0].ticket = Ticket::random());
    model.faults.delay_ms.store(200, SeqCst);
    let waiting = wait_for(&mutex);
    sleep(Duration::from_millis(100)).await;
    engine.close().await.unwrap();
    let ended = timeout(SOON, waiting).await.expect("it ends").unwrap();
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Closed);
    until(&model, (1, 0), SOON).await;
}
