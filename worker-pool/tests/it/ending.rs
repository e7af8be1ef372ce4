//! Draining, shutting down, and the end of a runtime: every job is accounted for.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{Door, Gauge, TIMEOUT, check_sum, pool, until};
use stanchion_pool::{ConfigError, Job, JobError, Refusal};
use tokio::time::Instant;

#[tokio::test]
async fn drain_finishes_all_and_takes_no_more() {
    let pool = pool(2, 10);
    let door = Door::closed();
    let mut handles = Vec::new();
    for _ in 0..10 {
        handles.push(pool.submit(door.clone().pass()).await.unwrap());
    }
    pool.pause();
    let draining = tokio::spawn({
        let pool = pool.clone();
        async move { pool.drain().await }
    });
    until(&pool, "it drains", |stats| stats.closed).await;
    assert_eq!(pool.try_submit(async {}).unwrap_err().refusal(), Refusal::Closed);
    assert_eq!(pool.submit(async { 7 }).await.unwrap_err().into_job().await, 7);
    assert_eq!(pool.resize(3), Err(ConfigError::Closed));
    assert!(!draining.is_finished());
    door.open();
    draining.await.unwrap().unwrap();
    for handle in handles {
        handle.await.unwrap();
    }
    let stats = pool.stats();
    assert_eq!((stats.done, stats.queued, stats.running, stats.workers), (10, 0, 0, 0));
    pool.drain().await.unwrap();
}

#[tokio::test]
async fn a_submit_that_waits_for_room_is_refused_at_the_end_and_returns_the_job() {
    let pool = pool(1, 1);
    let door = Door::closed();
    drop(pool.submit(door.clone().pass()).await.unwrap());
    until(&pool, "it runs", |stats| stats.running == 1).await;
    drop(pool.submit(door.clone().pass()).await.unwrap());
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.submit(async { 7 }).await }
    });
    until(&pool, "one waits", |stats| stats.waiting == 1).await;
    let draining = pool.drain();
    let refused = async {
        let refused = waiting.await.unwrap().unwrap_err();
        assert_eq!(refused.refusal(), Refusal::Closed);
        assert_eq!(refused.into_job().await, 7);
        door.open();
    };
    let (drained, ()) = tokio::join!(draining, refused);
    drained.unwrap();
    assert_eq!(pool.stats().done, 2);
}

#[derive(Debug)]
struct Letter(u32);

impl Job for Letter {
    type Output = u32;

    async fn run(self) -> u32 {
        self.0
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_finishes_what_runs_and_returns_what_never_ran() {
    let pool = pool(1, 10);
    let running = pool
        .submit(async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            1
        })
        .await
        .unwrap();
    until(&pool, "it runs", |stats| stats.running == 1).await;
    let mut letters = Vec::new();
    for number in 2..5 {
        letters.push(pool.submit(Letter(number)).await.unwrap());
    }
    let future = pool.submit(async { 5 }).await.unwrap();
    let start = Instant::now();
    let report = pool.shutdown(Duration::from_secs(10)).await;
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    assert_eq!(running.await.unwrap(), 1);
    assert!(report.aborted.is_empty() && report.unstopped.is_empty());
    let mut returned = report.returned.into_iter();
    // One job is taken out, one is run here, one is dropped, and the future is of another type.
    assert_eq!(returned.next().unwrap().downcast::<Letter>().unwrap().0, 2);
    returned.next().unwrap().run().await;
    drop(returned.next());
    let other = returned.next().unwrap().downcast::<Letter>().unwrap_err();
    other.run().await;
    let mut letters = letters.into_iter();
    assert!(matches!(letters.next().unwrap().await, Err(JobError::NotRun)));
    assert_eq!(letters.next().unwrap().await.unwrap(), 3);
    assert!(matches!(letters.next().unwrap().await, Err(JobError::NotRun)));
    assert_eq!(future.await.unwrap(), 5);
    assert_eq!((pool.stats().done, pool.stats().not_run), (1, 4));
    check_sum(&pool.stats());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_runs_at_the_deadline_is_aborted_and_reported() {
    let pool = pool(2, 10);
    let gauge = Gauge::default();
    let inside = gauge.clone();
    let stuck = pool
        .submit(async move {
            let _inside = inside.enter();
            std::future::pending::<()>().await;
        })
        .await
        .unwrap();
    let done = pool.submit(tokio::time::sleep(Duration::from_secs(1))).await.unwrap();
    until(&pool, "both run", |stats| stats.running == 2).await;
    let start = Instant::now();
    let report = pool.shutdown(Duration::from_secs(5)).await;
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(report.aborted, [stuck.id()]);
    assert!(report.returned.is_empty() && report.unstopped.is_empty());
    assert_eq!(gauge.now(), 0, "its future is dropped");
    assert!(matches!(stuck.await, Err(JobError::Aborted)));
    done.await.unwrap();
    let again = pool.shutdown(Duration::ZERO).await;
    assert!(again.aborted.is_empty());
}

#[tokio::test]
async fn a_blocking_job_at_the_deadline_is_reported_and_ends_later() {
    let pool = pool(1, 10);
    let (open, door) = std::sync::mpsc::channel::<()>();
    let job = move || {
        let _ = door.recv();
        7
    };
    let blocking = pool.submit_blocking(job).await.unwrap();
    until(&pool, "it runs", |stats| stats.running == 1).await;
    let report = pool.shutdown(Duration::ZERO).await;
    assert_eq!(report.unstopped, [blocking.id()]);
    assert!(report.aborted.is_empty() && !blocking.is_finished());
    drop(open);
    assert_eq!(blocking.await.unwrap(), 7);
    assert_eq!((pool.stats().done, pool.stats().aborted), (1, 0));
}

#[tokio::test]
async fn a_dropped_shutdown_loses_nothing() {
    let pool = pool(1, 10);
    let door = Door::closed();
    let running = pool.submit(door.clone().pass()).await.unwrap();
    until(&pool, "it runs", |stats| stats.running == 1).await;
    let queued = pool.submit(async { 2 }).await.unwrap();
    let dropped = tokio::time::timeout(Duration::ZERO, pool.shutdown(TIMEOUT)).await;
    assert!(dropped.is_err() && pool.stats().closed);
    assert_eq!((pool.stats().queued, pool.stats().running), (1, 1));
    door.open();
    running.await.unwrap();
    let report = pool.shutdown(TIMEOUT).await;
    assert_eq!(report.returned.len(), 1);
    for job in report.returned {
        job.run().await;
    }
    assert_eq!(queued.await.unwrap(), 2);
}

#[tokio::test]
async fn the_last_handle_closes_the_pool() {
    let pool = pool(1, 10);
    let door = Door::closed();
    let running = pool.submit(door.clone().pass()).await.unwrap();
    until(&pool, "it runs", |stats| stats.running == 1).await;
    let queued = pool.submit(async {}).await.unwrap();
    drop(pool);
    assert!(matches!(queued.await, Err(JobError::NotRun)));
    door.open();
    running.await.unwrap();
}

#[test]
fn the_end_of_the_runtime_leaves_no_handle_waiting() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let pool = runtime.block_on(async { pool(2, 10) });
    let running = pool.try_submit(std::future::pending::<()>()).unwrap();
    let second = pool.try_submit(std::future::pending::<()>()).unwrap();
    runtime.block_on(until(&pool, "both run", |stats| stats.running == 2));
    let queued = pool.try_submit(async {}).unwrap();
    runtime.shutdown_timeout(TIMEOUT);
    let outside = tokio::runtime::Builder::new_current_thread().build().unwrap();
    outside.block_on(async {
        assert!(matches!(running.await, Err(JobError::Aborted)));
        assert!(matches!(second.await, Err(JobError::Aborted)));
        assert!(matches!(queued.await, Err(JobError::NotRun)));
        assert_eq!(pool.submit(async {}).await.unwrap_err().refusal(), Refusal::Closed);
        pool.drain().await.unwrap();
    });
    check_sum(&pool.stats());
}

/// Marks that a job of the test below leaves: it began, and it ran to its end.
const BEGAN: u32 = 1;
const ENDED: u32 = 2;
/// The time that jobs have to stop after the deadline of a shutdown.
const TO_STOP: Duration = Duration::from_millis(250);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_under_load_accounts_for_every_job_exactly_once() {
    for round in 0..200_u32 {
        let pool = pool(1 + (round % 5) as usize, 1 + (round % 17) as usize);
        let mut callers = Vec::new();
        for caller in 0..4 {
            callers.push(tokio::spawn(load(pool.clone(), round + caller)));
        }
        until(&pool, "it is under load", |stats| stats.done >= u64::from(round % 50)).await;
        let began = Instant::now();
        let report = pool.shutdown(Duration::from_millis(u64::from(round % 3))).await;
        let took = began.elapsed();
        let mut returned: Vec<_> = report.returned.iter().map(|job| job.id()).collect();
        drop(report.returned);
        let (mut aborted, mut unstopped) = (report.aborted, report.unstopped);
        // Where the machine stood still, jobs had no time to stop. Each is told once all the same.
        assert!(unstopped.is_empty() || took >= TO_STOP, "{unstopped:?} after {took:?}");
        let mut done = 0;
        for caller in callers {
            for (handle, log) in caller.await.unwrap() {
                let (id, log) = (handle.id(), || log.load(Ordering::SeqCst));
                match handle.await {
                    Ok(()) => {
                        assert_eq!(log(), BEGAN + ENDED);
                        unstopped.retain(|job| *job != id);
                        done += 1;
                    }
                    Err(JobError::NotRun) => {
                        assert_eq!(log(), 0);
                        take(&mut returned, &id);
                    }
                    Err(JobError::Aborted) => {
                        assert_eq!(log() & ENDED, 0);
                        let from = if unstopped.contains(&id) { &mut unstopped } else { &mut aborted };
                        take(from, &id);
                    }
                    Err(error) => panic!("{id}: {error}"),
                }
            }
        }
        assert!(returned.is_empty() && aborted.is_empty(), "{returned:?} {aborted:?}");
        assert!(unstopped.is_empty(), "{unstopped:?}");
        if took >= TO_STOP {
            until(&pool, "all workers have left", |stats| stats.workers == 0).await;
        }
        let stats = pool.stats();
        assert_eq!((stats.done, stats.running, stats.queued, stats.workers), (done, 0, 0, 0));
        check_sum(&stats);
    }
}

type Log = Arc<AtomicU32>;

/// Submits jobs until the pool is closed.
async fn load(pool: stanchion_pool::WorkerPool, seed: u32) -> Vec<(stanchion_pool::JobHandle<()>, Log)> {
    let mut handles = Vec::new();
    for number in seed.. {
        let log = Log::default();
        let of_job = Arc::clone(&log);
        let job = async move {
            of_job.fetch_add(BEGAN, Ordering::SeqCst);
            match number % 7 {
                0 => tokio::time::sleep(Duration::from_millis(1)).await,
                1 => tokio::time::sleep(Duration::from_millis(20)).await,
                _ => tokio::task::yield_now().await,
            }
            of_job.fetch_add(ENDED, Ordering::SeqCst);
        };
        match pool.submit(job).await {
            Ok(handle) => handles.push((handle, log)),
            Err(refused) => {
                assert_eq!(refused.refusal(), Refusal::Closed);
                drop(refused.into_job());
                assert_eq!(log.load(Ordering::SeqCst), 0);
                break;
            }
        }
    }
    handles
}

fn take(from: &mut Vec<stanchion_pool::JobId>, id: &stanchion_pool::JobId) {
    let index = from.iter().position(|known| known == id).unwrap();
    from.swap_remove(index);
}
