//! Leases of very different lengths in one process, and short ones on a link that is slow.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time and fail by panics"
)]

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::model::drop_after::drop_after;
use crate::model::{Model, model};
use stanchion_conformance::stopwatch::timeout;
use stanchion_core::engine::Engine;
use stanchion_core::spi::Acquired;
use stanchion_core::{ErrorKind, MutexGuard, MutexOptions};
use tokio::time::sleep;

async fn locked(engine: &Engine, name: &str, ttl: Duration) -> MutexGuard {
    engine.mutex(name, MutexOptions::default().ttl(ttl)).unwrap().lock().await.unwrap()
}

#[tokio::test]
async fn c13_a_short_lease_bounds_no_request_of_longer_ones() {
    // Short enough to be renewed often.
    const SHORT: Duration = Duration::from_millis(1_400);
    const LONG: Duration = Duration::from_millis(4_500);
    let (model, engine) = model();
    let mut short = locked(&engine, "short", SHORT).await;
    let mut long = Vec::new();
    for index in 0..40 {
        long.push(locked(&engine, &format!("long{index}"), LONG).await);
    }
    // Where the machine stands still for longer than the short lease, it is lost and taken again.
    let kept: Result<(), _> = timeout(LONG * 2, async {
        loop {
            short.lost().await;
            short = locked(&engine, "short", SHORT).await;
        }
    })
    .await;
    kept.expect_err("it is kept without end");
    assert!(long.iter().all(MutexGuard::is_held));
    let renewed = model.faults.renewed.lock().unwrap().clone();
    let of_short = renewed.iter().flatten().filter(|lease| lease.get() == SHORT).count();
    assert!(of_short >= 12, "{of_short} renewals of the short one");
    let of_long: Vec<_> =
        renewed.iter().filter(|leases| leases.iter().any(|lease| lease.get() == LONG)).collect();
    assert!(of_long.iter().all(|leases| leases.iter().all(|lease| lease.get() == LONG)), "{of_long:?}");
    let renewals: usize = of_long.iter().map(|leases| leases.len()).sum();
    assert!(renewals >= 40 * 5 && of_long.len() * 4 <= renewals, "{} calls for {renewals}", of_long.len());
}

/// The request of an acquisition that was dropped, on its way for longer than its lease.
async fn late(model: &Model, answer: Acquired) {
    let request = model.faults.asked.lock().unwrap().first().cloned().unwrap();
    sleep(request.lease.get() * 2).await;
    assert_eq!(model.acquire(&[request]).await.remove(0).unwrap(), answer);
    assert_eq!(model.left(), (0, 0));
}

#[tokio::test]
async fn c4_a_dropped_request_that_comes_after_its_lease_is_refused() {
    let (model, engine) = model();
    let mutex = engine.mutex("m", MutexOptions::default().ttl(Duration::from_millis(100))).unwrap();
    model.faults.lose_requests.store(true, SeqCst);
    assert!(drop_after(1, mutex.lock()).await.is_none());
    model.faults.lose_requests.store(false, SeqCst);
    engine.close().await.unwrap();
    late(&model, Acquired::Cancelled).await;
}

#[tokio::test]
async fn c4_a_lost_request_that_comes_after_its_release_is_refused() {
    let (model, engine) = model();
    model.faults.lose_reply.store(1, SeqCst);
    let guard = locked(&engine, "m", Duration::from_millis(100)).await;
    // The lease may be over: the machine may have stood still.
    if let Err(error) = guard.release().await {
        assert_eq!(error.kind(), ErrorKind::Lost);
    }
    late(&model, Acquired::Cancelled).await;
}
