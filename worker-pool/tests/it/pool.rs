//! Submitting jobs, running them, and their handles.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Bomb, Door, Gauge, check_sum, pool, until};
use stanchion_pool::{ConfigError, JobError, MAX_WORKERS, Refusal, WorkerPool};
use tokio::time::Instant;

#[tokio::test]
async fn a_handle_gives_the_typed_result() {
    let pool = pool(2, 4);
    let number = pool.submit(async { 6 * 7 }).await.unwrap();
    let text = pool.try_submit(async { "text".to_owned() }).unwrap();
    assert_eq!(number.id().get() + 1, text.id().get());
    assert_eq!((number.await.unwrap(), text.await.unwrap()), (42, "text".to_owned()));
    assert_eq!(pool.stats().done, 2);
}

#[tokio::test]
async fn a_borrowed_constant_is_a_result_too() {
    let pool = pool(1, 1);
    let caller = tokio::spawn(async move { pool.submit(async { "text" }).await.unwrap().await });
    assert_eq!(caller.await.unwrap().unwrap(), "text");
}

#[tokio::test]
async fn bad_input_is_refused() {
    let build = |workers, queue| WorkerPool::builder().workers(workers).queue(queue).build().err();
    assert_eq!(build(0, 1), Some(ConfigError::NoWorkers));
    assert_eq!(build(1, 0), Some(ConfigError::NoQueue));
    assert_eq!(build(MAX_WORKERS + 1, 1), Some(ConfigError::TooManyWorkers { asked: MAX_WORKERS + 1 }));
    let pool = pool(1, 1);
    assert_eq!(pool.resize(0), Err(ConfigError::NoWorkers));
    assert_eq!(pool.resize(usize::MAX), Err(ConfigError::TooManyWorkers { asked: usize::MAX }));
}

#[test]
fn without_a_runtime_it_says_so() {
    assert_eq!(WorkerPool::builder().build().err(), Some(ConfigError::NoRuntime));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let pool = WorkerPool::builder().runtime(runtime.handle().clone()).build().unwrap();
    let handle = pool.try_submit(async { 1 }).unwrap();
    assert_eq!(runtime.block_on(handle).unwrap(), 1);
}

#[tokio::test]
async fn no_more_run_than_workers_and_no_more_wait_than_places() {
    let pool = pool(3, 5);
    let (door, gauge) = (Door::closed(), Gauge::default());
    let job = || {
        let (door, gauge) = (door.clone(), gauge.clone());
        async move {
            let _inside = gauge.enter();
            door.pass().await;
        }
    };
    let mut handles = Vec::new();
    for _ in 0..8 {
        handles.push(pool.submit(job()).await.unwrap());
    }
    until(&pool, "three run", |stats| stats.running == 3).await;
    assert_eq!(pool.stats().queued, 5);
    let refused = pool.try_submit(job()).unwrap_err();
    assert_eq!(refused.refusal(), Refusal::Full);
    // The refused job came back unchanged: it runs once there is room.
    door.open();
    handles.push(pool.submit(refused.into_job()).await.unwrap());
    for handle in handles {
        handle.await.unwrap();
    }
    assert_eq!(gauge.most(), 3);
    assert_eq!((pool.stats().done, pool.stats().refused), (9, 1));
}

#[tokio::test]
async fn room_is_given_first_come_first_served() {
    let pool = pool(1, 1);
    let door = Door::closed();
    let order = Arc::new(Mutex::new(Vec::new()));
    drop(pool.submit(door.clone().pass()).await.unwrap());
    until(&pool, "it runs", |stats| stats.running == 1).await;
    let mut callers = Vec::new();
    for number in 0..10_usize {
        let (caller, order) = (pool.clone(), Arc::clone(&order));
        callers.push(tokio::spawn(async move {
            let job = async move { order.lock().unwrap().push(number) };
            caller.submit(job).await.unwrap().await.unwrap();
        }));
        until(&pool, "the caller stands in line", |stats| stats.queued + stats.waiting == number + 1).await;
    }
    assert_eq!(pool.try_submit(async {}).unwrap_err().refusal(), Refusal::Full);
    door.open();
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn submit_for_waits_for_its_timeout_and_returns_the_job() {
    let pool = pool(1, 1);
    let door = Door::closed();
    drop(pool.submit(door.clone().pass()).await.unwrap());
    until(&pool, "it runs", |stats| stats.running == 1).await;
    let second = pool.submit(async { 2 }).await.unwrap();
    let start = Instant::now();
    let refused = pool.submit_for(async { 3 }, Duration::from_secs(5)).await.unwrap_err();
    assert_eq!((refused.refusal(), start.elapsed()), (Refusal::TimedOut, Duration::from_secs(5)));
    assert_eq!(refused.into_job().await, 3);
    let refused = pool.submit_for(async { 4 }, Duration::ZERO).await.unwrap_err();
    assert_eq!(refused.refusal(), Refusal::TimedOut);
    door.open();
    let fifth = pool.submit_for(async { 5 }, Duration::from_secs(5)).await.unwrap();
    assert_eq!((second.await.unwrap(), fifth.await.unwrap()), (2, 5));
    assert_eq!(pool.stats().submitted, 3);
}

#[tokio::test]
async fn a_dropped_submit_has_queued_nothing_and_frees_its_place_in_line() {
    let pool = pool(1, 1);
    let door = Door::closed();
    drop(pool.submit(door.clone().pass()).await.unwrap());
    until(&pool, "it runs", |stats| stats.running == 1).await;
    let queued = pool.submit(door.clone().pass()).await.unwrap();
    let (first, second) = (pool.clone(), pool.clone());
    let first = tokio::spawn(async move { drop(first.submit(async { panic!("it must not run") }).await) });
    until(&pool, "one waits", |stats| stats.waiting == 1).await;
    let second = tokio::spawn(async move { second.submit(async { 2 }).await.unwrap().await });
    until(&pool, "two wait", |stats| stats.waiting == 2).await;
    // The place that this frees is promised to the first submitter, which is dropped before it can
    // use it.
    queued.cancel();
    first.abort();
    door.open();
    assert_eq!(second.await.unwrap().unwrap(), 2);
    assert_eq!((pool.stats().submitted, pool.stats().panicked), (3, 0));
    assert!(matches!(queued.await, Err(JobError::Cancelled)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_is_that_jobs_error_and_costs_no_worker() {
    let pool = pool(4, 100);
    let mut handles = Vec::new();
    for number in 0..2_000_u32 {
        let job = async move {
            tokio::task::yield_now().await;
            assert!(number % 10 != 3, "job {number} has had enough");
            number
        };
        handles.push(pool.submit(job).await.unwrap());
    }
    for (number, handle) in (0..).zip(handles) {
        match handle.await {
            Ok(output) => assert_eq!(output, number),
            Err(JobError::Panicked(panic)) => {
                assert_eq!(panic.message(), format!("job {number} has had enough"));
                assert_eq!(
                    *panic.into_payload().downcast::<String>().unwrap(),
                    format!("job {number} has had enough")
                );
                assert_eq!(number % 10, 3);
            }
            Err(error) => panic!("{number}: {error}"),
        }
    }
    let stats = pool.stats();
    assert_eq!((stats.workers, stats.done, stats.panicked), (4, 1_800, 200));
    check_sum(&stats);
}

#[tokio::test]
async fn what_panics_when_dropped_costs_no_worker() {
    let pool = pool(1, 10);
    // A detached output, a future that is cancelled in the middle, and a job that never begins.
    drop(pool.submit(async { Bomb }).await.unwrap());
    let bomb = Bomb;
    let running = pool
        .submit(async move {
            let _bomb = bomb;
            std::future::pending::<()>().await;
        })
        .await
        .unwrap();
    until(&pool, "it runs", |stats| stats.done == 1 && stats.running == 1).await;
    running.cancel();
    assert!(matches!(running.await, Err(JobError::Cancelled)));
    assert_eq!(pool.submit(async { 3 }).await.unwrap().await.unwrap(), 3);
    assert_eq!(pool.stats().workers, 1);
}

#[tokio::test]
async fn a_cancelled_job_never_begins_or_is_dropped_in_the_middle() {
    let pool = pool(1, 3);
    let gauge = Gauge::default();
    let inside = gauge.clone();
    let running = pool
        .submit(async move {
            let _inside = inside.enter();
            std::future::pending::<()>().await;
        })
        .await
        .unwrap();
    until(&pool, "it runs", |_| gauge.now() == 1).await;
    let queued = pool.submit(async { unreachable!() }).await.unwrap();
    queued.cancel();
    assert!(queued.is_finished());
    assert_eq!(pool.stats().queued, 0);
    assert!(matches!(queued.await, Err::<(), _>(JobError::Cancelled)));
    running.cancel();
    assert!(matches!(running.await, Err(JobError::Cancelled)));
    assert_eq!((gauge.now(), pool.stats().cancelled), (0, 2));
    // The next job of that worker is not affected.
    assert_eq!(pool.submit(async { 3 }).await.unwrap().await.unwrap(), 3);
}

#[tokio::test]
async fn a_dropped_handle_detaches() {
    let pool = pool(1, 3);
    let (sender, receiver) = tokio::sync::oneshot::channel();
    drop(pool.submit(async move { sender.send(7).unwrap() }).await.unwrap());
    assert_eq!(receiver.await.unwrap(), 7);
}

#[tokio::test]
async fn blocking_jobs_have_the_same_bounds() {
    let pool = pool(2, 2);
    let gauge = Gauge::default();
    let (open, door) = std::sync::mpsc::channel::<()>();
    let door = Arc::new(Mutex::new(door));
    let mut handles = Vec::new();
    for number in 0..4 {
        let (gauge, door) = (gauge.clone(), Arc::clone(&door));
        let job = move || {
            let _inside = gauge.enter();
            let _ = door.lock().unwrap().recv();
            number
        };
        handles.push(pool.submit_blocking(job).await.unwrap());
    }
    until(&pool, "two run", |_| gauge.now() == 2).await;
    let refused = pool.try_submit_blocking(|| 5).unwrap_err();
    assert_eq!((refused.refusal(), refused.into_job()()), (Refusal::Full, 5));
    // The job has begun, so it runs to its end although it is cancelled.
    handles[0].cancel();
    drop(open);
    for (number, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.await.unwrap(), number);
    }
    assert_eq!(gauge.most(), 2);
    let panicked = pool.submit_blocking(|| panic!("no")).await.unwrap().await;
    assert!(matches!(panicked, Err::<(), _>(JobError::Panicked(panic)) if panic.message() == "no"));
}

#[tokio::test]
async fn resize_adds_and_takes_workers() {
    let pool = pool(2, 100);
    let (door, gauge) = (Door::closed(), Gauge::default());
    let mut handles = Vec::new();
    for _ in 0..40 {
        let (door, gauge) = (door.clone(), gauge.clone());
        let job = async move {
            let _inside = gauge.enter();
            door.pass().await;
        };
        handles.push(pool.submit(job).await.unwrap());
    }
    until(&pool, "two run", |_| gauge.now() == 2).await;
    pool.resize(8).unwrap();
    until(&pool, "eight run", |_| gauge.now() == 8).await;
    pool.resize(3).unwrap();
    assert_eq!((pool.stats().workers, pool.stats().wanted), (8, 3));
    door.let_in(5);
    until(&pool, "five have left", |stats| stats.workers == 3 && stats.running == 3).await;
    assert_eq!((gauge.now(), pool.stats().done), (3, 5));
    door.let_in(10);
    until(&pool, "ten more are done", |stats| stats.done == 15 && stats.running == 3).await;
    pool.resize(1).unwrap();
    door.open();
    for handle in handles {
        handle.await.unwrap();
    }
    until(&pool, "one is left", |stats| stats.workers == 1).await;
    pool.resize(5).unwrap();
    assert_eq!(pool.stats().workers, 5);
}

#[tokio::test]
async fn a_paused_pool_begins_nothing_and_takes_what_fits() {
    let pool = pool(2, 3);
    let door = Door::closed();
    let running = pool.submit(door.clone().pass()).await.unwrap();
    until(&pool, "it runs", |stats| stats.running == 1).await;
    pool.pause();
    let queued: Vec<_> = (0..3).map(|number| pool.try_submit(async move { number }).unwrap()).collect();
    assert_eq!(pool.try_submit(async {}).unwrap_err().refusal(), Refusal::Full);
    door.open();
    running.await.unwrap();
    assert_eq!((pool.stats().queued, pool.stats().running, pool.stats().paused), (3, 0, true));
    pool.resume();
    for (number, handle) in queued.into_iter().enumerate() {
        assert_eq!(handle.await.unwrap(), number);
    }
}
