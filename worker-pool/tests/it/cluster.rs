//! The cap and the rate, on the memory store.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Door, Gauge, check_sum, until};
use stanchion_core::{
    Error, ErrorKind, Limiter, LimiterOptions, Permit, Quota, Semaphore, SemaphoreOptions, Store,
};
use stanchion_memory::MemoryStore;
use stanchion_pool::{JobError, PoolBuilder, WorkerPool};
use tokio::task::JoinHandle;
use tokio::time::Instant;

fn semaphore(store: &MemoryStore, permits: u32) -> Arc<dyn Semaphore> {
    store.semaphore("jobs", SemaphoreOptions::new(permits)).unwrap()
}

/// Returns a cap whose queue is full, and so refuses everybody, until the other value is dropped.
async fn full(store: &MemoryStore) -> (Arc<dyn Semaphore>, impl Drop + use<>) {
    let cap = store.semaphore("jobs", SemaphoreOptions::new(2).max_waiters(1)).unwrap();
    let held = cap.acquire_many(2).await.unwrap();
    let waiting = Arc::clone(&cap);
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    while cap.inspect().await.unwrap().waiters == 0 {
        tokio::task::yield_now().await;
    }
    (cap, Full(Some(held), waiting))
}

struct Full(Option<Permit>, JoinHandle<Result<Permit, Error>>);

impl Drop for Full {
    fn drop(&mut self) {
        self.1.abort();
        drop(self.0.take());
    }
}

fn limiter(store: &MemoryStore, quota: Quota) -> Arc<dyn Limiter> {
    store.limiter("jobs", LimiterOptions::new(quota)).unwrap()
}

fn builder(workers: usize, queue: usize) -> PoolBuilder {
    WorkerPool::builder().workers(workers).queue(queue)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_pools_share_one_cap() {
    let store = MemoryStore::new();
    let pools = [(); 2].map(|()| builder(6, 100).cluster_cap(semaphore(&store, 4)).build().unwrap());
    let gauge = Gauge::default();
    let mut handles = Vec::new();
    for number in 0..1_000_u32 {
        let gauge = gauge.clone();
        let job = async move {
            let _inside = gauge.enter();
            for _ in 0..number % 4 {
                tokio::task::yield_now().await;
            }
        };
        handles.push(pools[(number % 2) as usize].submit(job).await.unwrap());
    }
    for handle in handles {
        handle.await.unwrap();
    }
    assert_eq!(gauge.most(), 4);
    for pool in &pools {
        pool.drain().await.unwrap();
        check_sum(&pool.stats());
    }
    assert_eq!(semaphore(&store, 4).available().await.unwrap(), 4);
}

#[tokio::test]
async fn a_permit_is_asked_for_only_where_a_job_waits() {
    let store = MemoryStore::new();
    let cap = semaphore(&store, 8);
    let pool = builder(8, 100).cluster_cap(Arc::clone(&cap)).build().unwrap();
    let door = Door::closed();
    let handles: Vec<_> = (0..2).map(|_| pool.try_submit(door.clone().pass()).unwrap()).collect();
    until(&pool, "both run", |stats| stats.running == 2).await;
    assert_eq!(cap.available().await.unwrap(), 6);
    door.open();
    for handle in handles {
        handle.await.unwrap();
    }
    assert_eq!(cap.available().await.unwrap(), 8, "back by the time that the handle resolves");
}

#[tokio::test]
async fn a_job_without_a_permit_stays_in_the_queue() {
    let store = MemoryStore::new();
    let cap = semaphore(&store, 1);
    let taken = cap.acquire().await.unwrap();
    let pool = builder(2, 2).cluster_cap(Arc::clone(&cap)).build().unwrap();
    let first = pool.submit(async { 1 }).await.unwrap();
    let second = pool.submit(async { 2 }).await.unwrap();
    until(&pool, "both are asked for", |stats| stats.seeking == 2).await;
    assert_eq!((pool.stats().queued, pool.stats().running), (2, 0));
    assert!(pool.try_submit(async {}).is_err());
    // No permit is requested for a cancelled job; a paused pool requests none at all.
    second.cancel();
    until(&pool, "one is asked for", |stats| stats.seeking == 1).await;
    pool.pause();
    until(&pool, "none is asked for", |stats| stats.seeking == 0).await;
    taken.release().await.unwrap();
    assert_eq!(cap.available().await.unwrap(), 1);
    pool.resume();
    assert_eq!(first.await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_the_wait_for_a_permit_and_returns_the_job() {
    let store = MemoryStore::new();
    let cap = semaphore(&store, 1);
    let taken = cap.acquire().await.unwrap();
    let pool = builder(2, 2).cluster_cap(Arc::clone(&cap)).build().unwrap();
    drop(pool.submit(async { 1 }).await.unwrap());
    until(&pool, "it is asked for", |stats| stats.seeking == 1).await;
    let start = Instant::now();
    let report = pool.shutdown(Duration::from_secs(60)).await;
    assert_eq!((report.returned.len(), start.elapsed()), (1, Duration::ZERO));
    taken.release().await.unwrap();
    assert_eq!(cap.available().await.unwrap(), 1);
    assert_eq!(cap.inspect().await.unwrap().waiters, 0);
}

#[tokio::test]
async fn a_lost_permit_stops_its_job() {
    let store = MemoryStore::new();
    let cap = semaphore(&store, 2);
    let pool = builder(2, 10).cluster_cap(Arc::clone(&cap)).build().unwrap();
    let gauge = Gauge::default();
    let inside = gauge.clone();
    let stopped = pool
        .submit(async move {
            let _inside = inside.enter();
            std::future::pending::<()>().await;
        })
        .await
        .unwrap();
    until(&pool, "it runs", |_| gauge.now() == 1).await;
    let holder = cap.inspect().await.unwrap().holders.pop().unwrap();
    assert!(cap.force_release(holder.ticket.unwrap()).await.unwrap());
    assert!(matches!(stopped.await, Err(JobError::LostPermit)));
    assert_eq!((gauge.now(), pool.stats().lost_permit), (0, 1));
    assert_eq!(pool.submit(async { 3 }).await.unwrap().await.unwrap(), 3);
}

#[tokio::test]
async fn a_blocking_job_that_lost_its_permit_says_so_at_its_end() {
    let store = MemoryStore::new();
    let cap = semaphore(&store, 1);
    let pool = builder(1, 10).cluster_cap(Arc::clone(&cap)).build().unwrap();
    let (open, door) = std::sync::mpsc::channel::<()>();
    let blocking = pool.submit_blocking(move || door.recv().is_err()).await.unwrap();
    until(&pool, "it runs", |stats| stats.running == 1).await;
    let holder = cap.inspect().await.unwrap().holders.pop().unwrap();
    assert!(cap.force_release(holder.ticket.unwrap()).await.unwrap());
    assert!(!blocking.is_finished());
    drop(open);
    assert!(matches!(blocking.await, Err(JobError::LostPermit)));
}

#[tokio::test(start_paused = true)]
async fn jobs_begin_at_the_rate_wherever_they_run() {
    let store = MemoryStore::new();
    let quota = Quota::per_second(10).burst(3);
    let pools = [(); 2].map(|()| builder(8, 100).rate(limiter(&store, quota)).build().unwrap());
    let begun = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    for number in 0..60 {
        let begun = Arc::clone(&begun);
        let job = async move { begun.lock().unwrap().push(start.elapsed()) };
        drop(pools[number % 2].submit(job).await.unwrap());
    }
    for pool in &pools {
        pool.drain().await.unwrap();
    }
    let begun = begun.lock().unwrap();
    for (first, from) in begun.iter().enumerate() {
        for (last, to) in begun.iter().enumerate().skip(first) {
            // In every window: the burst, and a tenth of a second for each further job.
            let window = u128::from(u64::try_from(last - first + 1).unwrap().saturating_sub(3)) * 100_000;
            assert!((*to - *from).as_micros() + 1_000 >= window, "{first} to {last}: {:?}", *to - *from);
        }
    }
    assert_eq!(begun.len(), 60);
    // 57 jobs beyond the burst at 10 a second; the runtime's timer counts in milliseconds.
    assert!(start.elapsed() < Duration::from_millis(5_700 + 60), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn no_permit_is_held_while_a_job_waits_for_the_rate() {
    let store = MemoryStore::new();
    let cap = semaphore(&store, 1);
    let rate = limiter(&store, Quota::per_second(1).burst(1));
    rate.wait().await.unwrap();
    let pool = builder(2, 10).cluster_cap(Arc::clone(&cap)).rate(rate).build().unwrap();
    let start = Instant::now();
    let waiting = pool.submit(async move { start.elapsed() }).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((pool.stats().seeking, pool.stats().running), (1, 0));
    assert_eq!(cap.available().await.unwrap(), 1);
    assert!(waiting.await.unwrap() >= Duration::from_millis(900), "it began without a token");
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_cap_cost_no_further_token() {
    let store = MemoryStore::new();
    let (cap, queue) = full(&store).await;
    let rate = limiter(&store, Quota::per_hour(1).burst(1));
    let pool = builder(1, 10).cluster_cap(cap).rate(rate).build().unwrap();
    let waiting = pool.submit(async { 7 }).await.unwrap();
    let failing = async {
        while pool.stats().store_errors < 5 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), failing).await.unwrap();
    drop(queue);
    assert_eq!(tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn after_a_wait_for_permits_at_most_a_job_of_each_worker_begins_besides_the_rate() {
    let store = MemoryStore::new();
    let cap = semaphore(&store, 4);
    let all = cap.acquire_many(4).await.unwrap();
    let rate = limiter(&store, Quota::per_second(1).burst(1));
    let pool = builder(4, 10).cluster_cap(cap).rate(rate).build().unwrap();
    let begun = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    for _ in 0..10 {
        let begun = Arc::clone(&begun);
        drop(pool.submit(async move { begun.lock().unwrap().push(start.elapsed()) }).await.unwrap());
    }
    // By then each worker has a token, and the bucket is full again.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((pool.stats().seeking, pool.stats().running), (4, 0));
    all.release().await.unwrap();
    pool.drain().await.unwrap();
    let begun = begun.lock().unwrap();
    let at_once = begun.iter().filter(|begun| **begun < Duration::from_millis(5_500)).count();
    assert_eq!((begun.len(), at_once), (10, 5), "{begun:?}");
    assert!(begun[9] >= Duration::from_millis(9_500), "{begun:?}");
}

#[tokio::test(start_paused = true)]
async fn jobs_wait_through_errors_of_the_store() {
    let store = MemoryStore::new();
    let (cap, queue) = full(&store).await;
    let pool = builder(2, 10).cluster_cap(cap).build().unwrap();
    let waiting = pool.submit(async { 7 }).await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), async {
        while pool.stats().store_errors < 5 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
    assert_eq!((pool.stats().queued, pool.stats().running), (1, 0));
    drop(queue);
    assert_eq!(waiting.await.unwrap(), 7);
    let _queue = full(&store).await;
    let never = pool.submit(async { 8 }).await.unwrap();
    until(&pool, "the store was asked", |stats| stats.seeking == 1).await;
    let start = Instant::now();
    let report = pool.shutdown(Duration::from_secs(1)).await;
    assert_eq!((report.returned.len(), start.elapsed()), (1, Duration::ZERO));
    drop(report);
    assert!(matches!(never.await, Err(JobError::NotRun)));
}

/// A closed store, and another limit than the store's.
#[tokio::test]
async fn jobs_end_with_an_error_that_waiting_cannot_mend() {
    let store = MemoryStore::new();
    let other = store.semaphore("jobs", SemaphoreOptions::new(2)).unwrap();
    let held = other.acquire().await.unwrap();
    let pool = builder(2, 10).cluster_cap(semaphore(&store, 3)).build().unwrap();
    for _ in 0..3 {
        let refused = pool.submit(async { 7 }).await.unwrap().await;
        let Err(JobError::Refused(error)) = refused else { panic!("{refused:?}") };
        assert_eq!(error.kind(), ErrorKind::ConfigMismatch, "{error}");
    }
    // The next one is asked for anew.
    other.resize(3).await.unwrap();
    assert_eq!(pool.submit(async { 7 }).await.unwrap().await.unwrap(), 7);
    held.release().await.unwrap();
    store.close().await.unwrap();
    let refused: Vec<_> = (0..5).map(|_| pool.try_submit(async { 8 }).unwrap()).collect();
    for refused in refused {
        let refused = refused.await;
        assert!(
            matches!(&refused, Err(JobError::Refused(error)) if error.kind() == ErrorKind::Closed),
            "{refused:?}"
        );
    }
    check_sum(&pool.stats());
    assert_eq!(pool.stats().refused_by_store, 8);
    pool.drain().await.unwrap();
}

#[tokio::test]
async fn a_job_knows_its_fencing_token() {
    let store = MemoryStore::new();
    let capped = builder(1, 10).cluster_cap(semaphore(&store, 1)).build().unwrap();
    let read = || async {
        let before = stanchion_pool::fencing_token();
        tokio::task::yield_now().await;
        assert_eq!(stanchion_pool::fencing_token(), before);
        before
    };
    let first = capped.submit(read()).await.unwrap().await.unwrap().unwrap();
    let second = capped.submit_blocking(stanchion_pool::fencing_token).await.unwrap().await.unwrap().unwrap();
    let third = capped.submit(read()).await.unwrap().await.unwrap().unwrap();
    assert!(first < second && second < third);
    let free = builder(1, 10).build().unwrap();
    assert_eq!(free.submit(read()).await.unwrap().await.unwrap(), None);
    assert_eq!(stanchion_pool::fencing_token(), None);
}
