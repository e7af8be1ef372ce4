//! Handles that do not keep their pool open.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use crate::common::pool;
use stanchion_pool::JobError;

#[tokio::test]
async fn a_paused_pool_whose_jobs_hold_weak_handles_ends_with_its_last_handle() {
    let pool = pool(1, 10);
    pool.pause();
    let weak = pool.downgrade();
    let inside = weak.clone();
    let queued = pool.submit(async move { inside.upgrade().is_some() }).await.unwrap();
    assert!(weak.upgrade().is_some());
    drop(pool);
    assert!(weak.upgrade().is_none());
    assert!(matches!(queued.await, Err(JobError::NotRun)));
}

#[tokio::test]
async fn shutdown_gives_back_the_clones_that_jobs_of_a_paused_pool_hold() {
    let pool = pool(1, 10);
    pool.pause();
    let (weak, clone) = (pool.downgrade(), pool.clone());
    let queued = pool.submit(async move { clone.stats().queued }).await.unwrap();
    let report = pool.shutdown(Duration::ZERO).await;
    assert_eq!(report.returned.len(), 1);
    drop(pool);
    assert!(weak.upgrade().is_some(), "the returned job holds a clone");
    drop(report);
    assert!(weak.upgrade().is_none());
    assert!(matches!(queued.await, Err(JobError::NotRun)));
}

#[tokio::test]
async fn a_job_uses_its_pool_through_a_weak_handle() {
    let pool = pool(1, 10);
    let weak = pool.downgrade();
    let job = async move { weak.upgrade().map(|pool| pool.try_submit(async { 7 }).unwrap()) };
    let inner = pool.submit(job).await.unwrap().await.unwrap();
    assert_eq!(inner.unwrap().await.unwrap(), 7);
}
