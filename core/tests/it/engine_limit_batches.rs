//! Batches of decisions that take too long, or whose outcome is unknown (C27).

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time and fail by panics"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::model::model_within;
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::timeout;
use stanchion_core::{LimiterOptions, Quota};
use tokio::time::sleep;

const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn c27_a_batch_in_doubt_keeps_no_other_call_waiting() {
    let (model, engine) = model_within(SHORT);
    let [stuck, other] = ["stuck", "other"]
        .map(|name| engine.limiter(name, LimiterOptions::new(Quota::per_second(1_000_000))).unwrap());
    assert!(stuck.allow().await.unwrap().allowed && other.allow().await.unwrap().allowed);
    *model.faults.locked.lock().unwrap() = Some("stuck");
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let stuck = Arc::clone(&stuck);
            tokio::spawn(async move { stuck.wait().await })
        })
        .collect();
    // The first leaves alone, the others together behind it; then both are in doubt.
    sleep(SHORT * 3).await;
    for _ in 0..3 {
        assert!(other.allow().await.unwrap().allowed, "it waits for no batch but its own");
    }
    assert!(waiting.iter().all(|call| !call.is_finished()));
    *model.faults.locked.lock().unwrap() = None;
    for call in waiting {
        timeout(Duration::from_secs(2) + EPSILON, call)
            .await
            .expect("its batch is decided")
            .unwrap()
            .unwrap();
    }
}

#[tokio::test]
async fn c27_decisions_that_take_too_long_together_are_made_in_smaller_parts() {
    let (model, engine) = model_within(SHORT);
    let limiter = engine.limiter("l", LimiterOptions::new(Quota::per_second(1_000_000))).unwrap();
    assert!(limiter.allow().await.unwrap().allowed);
    // 400 of them take four times as long as a request may.
    model.faults.entry_ms.store(2, SeqCst);
    let calls = (0..400).map(|_| {
        let limiter = Arc::clone(&limiter);
        tokio::spawn(async move {
            let mut decided = 0;
            for _ in 0..5 {
                decided += u32::from(limiter.allow().await.is_ok());
            }
            decided
        })
    });
    let mut decided = 0;
    for call in calls.collect::<Vec<_>>() {
        decided += call.await.unwrap();
    }
    assert!(decided >= 40, "{decided} of 2,000 were decided");
}
