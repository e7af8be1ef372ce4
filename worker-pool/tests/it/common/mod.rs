//! Helpers of the tests.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use stanchion_pool::{PoolStats, WorkerPool};
use tokio::sync::Semaphore;

/// Timeout after which a waiting test fails.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn pool(workers: usize, queue: usize) -> WorkerPool {
    WorkerPool::builder().workers(workers).queue(queue).build().unwrap()
}

/// Waits until the pool's counters satisfy the condition.
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
    // Uses the system's clock, because the runtime's may stand still.
    let start = std::time::Instant::now();
    tokio::pin!(waiting);
    std::future::poll_fn(|cx| {
        assert!(start.elapsed() < TIMEOUT, "waited in vain until {what}: {:?}", pool.stats());
        waiting.as_mut().poll(cx)
    })
    .await;
}

/// A barrier at which jobs wait until the test lets them pass.
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

/// Counts the jobs that are inside at once, and their maximum.
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

/// A value that panics when it is dropped.
pub(crate) struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

/// Checks that the counters account for every queued job.
pub(crate) fn check_sum(stats: &PoolStats) {
    let ended = stats.done
        + stats.panicked
        + stats.cancelled
        + stats.lost_permit
        + stats.refused_by_store
        + stats.not_run
        + stats.aborted;
    let held = u64::try_from(stats.queued + stats.running).unwrap();
    assert_eq!(stats.submitted, ended + held, "{stats:?}");
}
