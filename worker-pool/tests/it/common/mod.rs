//! What the tests share.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use stanchion_pool::{PoolStats, WorkerPool};
use tokio::sync::Semaphore;

/// After this time a test that waits for something fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn pool(workers: usize, queue: usize) -> WorkerPool {
    WorkerPool::builder().workers(workers).queue(queue).build().unwrap()
}

/// Waits until the pool's counters are as the test needs them.
pub(crate) async fn until(
    pool: &WorkerPool,
    what: &str,
    condition: impl Fn(&PoolStats) -> bool + Send + Sync,
) {
    let waiting = async {
        while !condition(&pool.stats()) {
            tokio::task::yield_now().await;
        }
    };
    // Not by the runtime's clock, which may stand still.
    let start = std::time::Instant::now();
    tokio::pin!(waiting);
    std::future::poll_fn(|cx| {
        assert!(start.elapsed() < LIMIT, "waited in vain until {what}: {:?}", pool.stats());
        waiting.as_mut().poll(cx)
    })
    .await;
}

/// A door that jobs wait at until the test lets them through.
#[derive(Clone)]
pub(crate) struct Door(Arc<Semaphore>);

impl Door {
    pub(crate) fn closed() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    pub(crate) fn open(&self) {
        self.0.close();
    }

    pub(crate) fn let_in(&self, jobs: usize) {
        self.0.add_permits(jobs);
    }

    pub(crate) async fn pass(self) {
        if let Ok(permit) = self.0.acquire().await {
            permit.forget();
        }
    }
}

/// How many are inside at once, and how many were at most.
#[derive(Clone, Default)]
pub(crate) struct Gauge(Arc<(AtomicUsize, AtomicUsize)>);

impl Gauge {
    pub(crate) fn enter(&self) -> Inside {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
        Inside(self.clone())
    }

    pub(crate) fn now(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }

    pub(crate) fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

pub(crate) struct Inside(Gauge);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Every job that was queued is where the counters say.
pub(crate) fn check_sum(stats: &PoolStats) {
    let ended =
        stats.done + stats.panicked + stats.cancelled + stats.lost_permit + stats.not_run + stats.aborted;
    let held = u64::try_from(stats.queued + stats.running).unwrap();
    assert_eq!(stats.submitted, ended + held, "{stats:?}");
}
