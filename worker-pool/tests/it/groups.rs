//! Groups: the orders of results, the first error, and the jobs that it cancels.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::time::Duration;

use crate::common::{Bomb, Door, Gauge, check_sum, pool, until};
use stanchion_pool::{GroupError, JobError, Refusal};
use tokio::time::{sleep, timeout};

#[tokio::test(start_paused = true)]
async fn results_come_in_the_order_of_submission() {
    let pool = pool(8, 100);
    let mut group = pool.group::<u64, String>();
    for number in 0..100_u64 {
        let job = async move {
            sleep(Duration::from_millis(number * 7919 % 101)).await;
            Ok(number)
        };
        group.submit(job).await.unwrap();
    }
    assert_eq!(group.next().await.unwrap().unwrap(), 0);
    assert_eq!(group.len(), 99);
    assert_eq!(group.join().await.unwrap(), (1..100).collect::<Vec<_>>());
}

/// Sleeps for so many seconds, and returns their number.
async fn after(seconds: u64) -> Result<u64, String> {
    sleep(Duration::from_secs(seconds)).await;
    Ok(seconds)
}

#[tokio::test(start_paused = true)]
async fn join_next_returns_results_as_the_jobs_end() {
    let pool = pool(8, 10);
    let mut group = pool.group::<u64, String>();
    for seconds in [5, 1, 4, 2, 3] {
        group.submit(after(seconds)).await.unwrap();
    }
    for seconds in 1..=5 {
        assert_eq!(group.join_next().await.unwrap().unwrap(), seconds);
    }
    assert!(group.is_empty());
    assert!(group.join_next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn each_result_is_taken_once_in_either_order() {
    let pool = pool(8, 10);
    let mut group = pool.group::<u64, String>();
    for seconds in [3, 1, 2, 4] {
        group.submit(after(seconds)).await.unwrap();
    }
    assert_eq!(group.join_next().await.unwrap().unwrap(), 1);
    assert_eq!(group.next().await.unwrap().unwrap(), 3);
    assert_eq!(group.next().await.unwrap().unwrap(), 2);
    assert_eq!(group.join_next().await.unwrap().unwrap(), 4);
    assert!(group.next().await.is_none());
    assert!(group.join_next().await.is_none());
}

#[tokio::test]
async fn a_dropped_join_next_has_taken_no_result() {
    let pool = pool(1, 10);
    let door = Door::closed();
    let mut group = pool.group::<u32, String>();
    let waiting = door.clone();
    let job = async move {
        waiting.pass().await;
        Ok(7)
    };
    group.submit(job).await.unwrap();
    assert!(timeout(Duration::ZERO, group.join_next()).await.is_err());
    door.open();
    assert_eq!(group.join_next().await.unwrap().unwrap(), 7);
    assert!(group.join_next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn join_next_returns_the_first_error_and_then_nothing() {
    let pool = pool(4, 10);
    let mut group = pool.group::<u64, u64>();
    for number in 1..=3_u64 {
        let job = async move {
            sleep(Duration::from_secs(number)).await;
            if number == 2 { Err(number) } else { Ok(number) }
        };
        group.submit(job).await.unwrap();
    }
    assert_eq!(group.join_next().await.unwrap().unwrap(), 1);
    match group.join_next().await {
        Some(Err(GroupError::Failed { index: 1, error: 2 })) => {}
        other => panic!("{other:?}"),
    }
    assert!(group.join_next().await.is_none());
    until(&pool, "the other is cancelled", |stats| stats.cancelled == 1).await;
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

async fn parse(text: &str) -> Result<u32, BoxError> {
    tokio::task::yield_now().await;
    Ok(text.parse()?)
}

#[tokio::test]
async fn the_question_mark_boxes_the_errors_of_every_job() -> Result<(), BoxError> {
    let pool = pool(2, 4);
    // This job is not `Sync`.
    let number = std::cell::Cell::new(7);
    let job = async move {
        tokio::task::yield_now().await;
        number.get()
    };
    assert_eq!(pool.submit(job).await?.await?, 7);
    let mut group = pool.group::<u32, BoxError>();
    group.submit(parse("1")).await?;
    assert_eq!(group.join_next().await.transpose()?, Some(1));
    group.submit(parse("one")).await?;
    let error: BoxError = group.join().await.unwrap_err().into();
    assert_eq!(error.to_string(), "job 1 of the group failed: invalid digit found in string");
    pool.drain().await?;
    Ok(())
}

#[tokio::test]
async fn outputs_that_panic_when_dropped_fail_neither_the_group_nor_a_worker() {
    let pool = pool(1, 10);
    let mut group = pool.group::<Bomb, &str>();
    for _ in 0..2 {
        group.submit(async { Ok(Bomb) }).await.unwrap();
    }
    group.submit(async { Err("no") }).await.unwrap();
    until(&pool, "all have ended", |stats| stats.done == 3).await;
    assert!(matches!(group.next().await, Some(Err(GroupError::Failed { index: 2, error: "no" }))));
    assert_eq!(pool.submit(async { 3 }).await.unwrap().await.unwrap(), 3);
    assert_eq!(pool.stats().workers, 1);
}

#[tokio::test(start_paused = true)]
async fn the_first_error_in_time_cancels_the_rest() {
    let pool = pool(4, 100);
    let gauge = Gauge::default();
    let mut group = pool.group::<u64, u64>();
    for number in 0..20_u64 {
        let gauge = gauge.clone();
        let job = async move {
            let _inside = gauge.enter();
            sleep(Duration::from_secs(if number == 2 { 1 } else { 100 + number })).await;
            if number < 3 { Err(number) } else { Ok(number) }
        };
        group.submit(job).await.unwrap();
    }
    let start = tokio::time::Instant::now();
    match group.next().await {
        Some(Err(GroupError::Failed { index: 2, error: 2 })) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    assert!(group.next().await.is_none());
    let refused = group.submit(async { Ok(7) }).await.unwrap_err();
    assert_eq!(refused.refusal(), Refusal::GroupFailed);
    assert_eq!(refused.into_job().await, Ok(7));
    until(&pool, "all have ended", |stats| stats.cancelled == 19 && stats.running == 0).await;
    assert_eq!((gauge.now(), gauge.most(), pool.stats().done), (0, 4, 1));
    check_sum(&pool.stats());
}

#[tokio::test]
async fn a_panic_fails_the_group_too() {
    let pool = pool(2, 10);
    let group = pool.group::<(), ()>();
    group.submit(std::future::pending()).await.unwrap();
    group.submit(async { panic!("no") }).await.unwrap();
    match group.join().await {
        Err(GroupError::Ended { index: 1, error: JobError::Panicked(panic) }) => {
            assert_eq!(panic.message(), "no");
        }
        other => panic!("{other:?}"),
    }
    until(&pool, "the other is cancelled", |stats| stats.cancelled == 1).await;
}

#[tokio::test]
async fn a_submit_that_waits_for_room_fails_with_its_group() {
    let pool = pool(2, 1);
    let door = Door::closed();
    // Jobs outside the group take one worker and the only place in the queue.
    let other = pool.submit(door.clone().pass()).await.unwrap();
    until(&pool, "it runs", |stats| stats.running == 1).await;
    let group = pool.group::<(), &str>();
    let (fail, failing) = tokio::sync::oneshot::channel::<()>();
    let job = async move {
        let _ = failing.await;
        Err("no")
    };
    group.submit(job).await.unwrap();
    until(&pool, "both run", |stats| stats.running == 2).await;
    pool.pause();
    let queued = pool.submit(door.clone().pass()).await.unwrap();
    let waiting = tokio::spawn(async move {
        let refused = group.submit(async { Ok(()) }).await.unwrap_err();
        assert_eq!(refused.refusal(), Refusal::GroupFailed);
        group
    });
    until(&pool, "it waits", |stats| stats.waiting == 1).await;
    drop(fail);
    let group = waiting.await.unwrap();
    assert!(matches!(group.join().await, Err(GroupError::Failed { index: 0, error: "no" })));
    assert_eq!(pool.stats().waiting, 0);
    pool.resume();
    door.open();
    other.await.unwrap();
    queued.await.unwrap();
}

#[tokio::test]
async fn a_dropped_group_cancels_its_jobs_and_no_others() {
    let pool = pool(2, 10);
    let door = Door::closed();
    let other = pool.submit(door.clone().pass()).await.unwrap();
    let group = pool.group::<(), ()>();
    for _ in 0..5 {
        group.submit(std::future::pending()).await.unwrap();
    }
    until(&pool, "two run", |stats| stats.running == 2).await;
    drop(group);
    until(&pool, "five are cancelled", |stats| stats.cancelled == 5 && stats.running == 1).await;
    door.open();
    other.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_beside_each_other_do_not_mix() {
    let pool = pool(4, 16);
    let mut callers = Vec::new();
    for caller in 0..40_usize {
        let pool = pool.clone();
        callers.push(tokio::spawn(async move {
            let group = pool.group::<usize, usize>();
            let fails = (caller % 3 == 0).then_some(caller * 7 % 50);
            for number in 0..50 {
                let job = async move {
                    tokio::task::yield_now().await;
                    if Some(number) == fails { Err(number) } else { Ok(caller * 100 + number) }
                };
                if let Err(refused) = group.submit(job).await {
                    assert_eq!(refused.refusal(), Refusal::GroupFailed);
                    break;
                }
            }
            match (group.join().await, fails) {
                (Ok(results), None) => {
                    assert_eq!(results, (0..50).map(|number| caller * 100 + number).collect::<Vec<_>>());
                }
                (Err(GroupError::Failed { index, error }), Some(fails)) => {
                    assert_eq!((index, error), (fails, fails))
                }
                (other, _) => panic!("{other:?}"),
            }
        }));
    }
    for caller in callers {
        caller.await.unwrap();
    }
    pool.drain().await.unwrap();
    check_sum(&pool.stats());
}
