//! What limiters give back when nobody waits for the answer.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time and fail by panics"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::model::{Model, model};
use stanchion_conformance::stopwatch;
use stanchion_conformance::wakers::owned;
use stanchion_core::engine::Engine;
use stanchion_core::{Limiter, LimiterOptions, Quota};
use tokio::time::sleep;

const HOUR: Duration = Duration::from_secs(60 * 60);
const TOKEN: Duration = Duration::from_secs(60);

/// A token in a minute, a burst of 200.
fn limiter(engine: &Engine) -> Arc<dyn Limiter> {
    let quota = Quota::per(1, TOKEN).burst(200);
    engine.limiter("l", LimiterOptions::new(quota).refusal_cache(false)).unwrap()
}

/// Tokens missing in the only bucket, parts counted as one.
fn missing(model: &Model) -> u64 {
    let token = u64::try_from(TOKEN.as_micros()).unwrap();
    model.limits.missing().div_ceil(token)
}

async fn until_missing(model: &Model, tokens: u64) {
    let seen = async {
        while missing(model) != tokens {
            sleep(Duration::from_millis(2)).await;
        }
    };
    let seen = stopwatch::timeout(Duration::from_secs(2), seen).await;
    seen.unwrap_or_else(|_| panic!("not {tokens} missing but {}", missing(model)));
}

async fn until_leapt(model: &Model) {
    while model.faults.leap_secs.load(SeqCst) > 0 {
        sleep(Duration::from_millis(2)).await;
    }
    sleep(Duration::from_millis(50)).await;
}

#[tokio::test]
async fn l7_a_refund_outlives_an_outage_until_the_reservations_time() {
    let (model, engine) = model();
    let limiter = limiter(&engine);
    limiter.allow_n(200).await.unwrap();
    let place = limiter.reserve_n(180, HOUR * 4).await.unwrap().unwrap();
    model.faults.away.store(true, SeqCst);
    drop(place);
    model.faults.leap_secs.store(2 * 60 * 60, SeqCst);
    until_leapt(&model).await;
    model.faults.away.store(false, SeqCst);
    // All of 180, and a token for each minute.
    until_missing(&model, 200 - 120).await;
}

#[tokio::test]
async fn c4_a_reservation_in_doubt_is_given_back_after_a_long_outage() {
    let (model, engine) = model();
    let limiter = limiter(&engine);
    limiter.allow_n(200).await.unwrap();
    for (max_wait, after) in [(HOUR * 4, 200 - 60), (Duration::MAX, 200 - 120)] {
        model.faults.lose_replies.store(true, SeqCst);
        // Made by the store, and dropped before anything of it was heard. It is away by then: a
        // refund that it takes before the hour leaves nothing to see.
        let reserved = missing(&model) + 180;
        let call = Arc::clone(&limiter);
        let reserving = tokio::spawn(async move { call.reserve_n(180, max_wait).await });
        until_missing(&model, reserved).await;
        model.faults.away.store(true, SeqCst);
        reserving.abort();
        assert!(reserving.await.is_err_and(|error| error.is_cancelled()), "it has heard of it");
        model.faults.lose_replies.store(false, SeqCst);
        model.faults.leap_secs.store(60 * 60, SeqCst);
        until_leapt(&model).await;
        model.faults.away.store(false, SeqCst);
        until_missing(&model, after).await;
    }
}

#[tokio::test]
async fn l7_a_refund_is_given_up_once_the_reservations_time_has_gone() {
    let (model, engine) = model();
    let limiter = limiter(&engine);
    limiter.allow_n(200).await.unwrap();
    let place = limiter.reserve_n(1, HOUR).await.unwrap().unwrap();
    model.faults.away.store(true, SeqCst);
    drop(place);
    model.faults.leap_secs.store(3 * 60, SeqCst);
    until_leapt(&model).await;
    engine.drain().await.unwrap();
    let calls = model.faults.calls.load(SeqCst);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(model.faults.calls.load(SeqCst), calls, "nothing is sent any more");
}

#[tokio::test]
async fn c12_close_gives_back_the_last_first_whoever_is_told_first() {
    let (model, engine) = model();
    let limiter = limiter(&engine);
    limiter.allow_n(200).await.unwrap();
    let waits = [0; 3].map(|_| {
        let limiter = Arc::clone(&limiter);
        owned(Box::pin(async move { drop(limiter.wait_n(20).await) }))
    });
    assert_eq!(missing(&model), 260);
    engine.close().await.unwrap();
    assert_eq!(missing(&model), 200, "when close returns");
    assert!(waits.iter().all(|wait| wait.is_empty()), "all are told");
}
