//! Several submitters of one group.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::pin::Pin;
use std::time::Duration;

use crate::common::{Door, TIMEOUT, pool, until};
use stanchion_pool::{GroupError, GroupSubmitter, Refusal};
use tokio::time::timeout;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_tasks_submit_to_one_group_while_another_takes_the_results() {
    let pool = pool(4, 8);
    let mut group = pool.group::<usize, String>();
    for caller in 0..8_usize {
        let submitter = group.submitter();
        drop(tokio::spawn(async move {
            for number in 0..50 {
                let job = async move {
                    tokio::task::yield_now().await;
                    Ok(caller * 100 + number)
                };
                submitter.submit(job).await.unwrap();
            }
        }));
    }
    let mut results = Vec::new();
    while let Some(result) = group.join_next().await {
        results.push(result.unwrap());
    }
    results.sort_unstable();
    let all: Vec<usize> =
        (0..8).flat_map(|caller| (0..50).map(move |number| caller * 100 + number)).collect();
    assert_eq!(results, all);
}

#[tokio::test]
async fn the_results_of_all_submitters_come_in_one_order() {
    let pool = pool(2, 10);
    let group = pool.group::<u32, String>();
    let submitter = group.submitter();
    group.submit(async { Ok(1) }).await.unwrap();
    submitter.submit(async { Ok(2) }).await.unwrap();
    group.submit(async { Ok(3) }).await.unwrap();
    assert_eq!(group.len(), 3);
    drop(submitter);
    assert_eq!(group.join().await.unwrap(), [1, 2, 3]);
}

#[tokio::test]
async fn a_group_waits_for_its_submitters() {
    let pool = pool(1, 4);
    let mut group = pool.group::<u32, String>();
    let first = group.submitter();
    let second = first.clone();
    drop(first);
    assert!(timeout(Duration::ZERO, group.next()).await.is_err());
    let submitting = tokio::spawn(async move { second.submit(async { Ok(7) }).await.unwrap() });
    assert_eq!(group.next().await.unwrap().unwrap(), 7);
    assert!(timeout(TIMEOUT, group.next()).await.unwrap().is_none());
    submitting.await.unwrap();
}

#[tokio::test]
async fn submitters_that_wait_for_room_are_refused_when_their_group_fails() {
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
    let mut callers = Vec::new();
    for number in 1..=3 {
        let submitter = group.submitter();
        let caller = async move { submitter.submit(async { Ok(()) }).await.unwrap_err().refusal() };
        callers.push(tokio::spawn(caller));
        until(&pool, "the caller waits", |stats| stats.waiting == number).await;
    }
    drop(fail);
    for caller in callers {
        assert_eq!(timeout(TIMEOUT, caller).await.unwrap().unwrap(), Refusal::GroupFailed);
    }
    assert!(matches!(group.join().await, Err(GroupError::Failed { index: 0, error: "no" })));
    assert_eq!(pool.stats().waiting, 0);
    pool.resume();
    door.open();
    other.await.unwrap();
    queued.await.unwrap();
}

#[tokio::test]
async fn the_submitters_of_a_dropped_group_are_refused() {
    let pool = pool(1, 1);
    pool.pause();
    let group = pool.group::<(), String>();
    group.submit(async { Ok(()) }).await.unwrap();
    let (first, second) = (group.submitter(), group.submitter());
    let waiting = tokio::spawn(async move { first.submit(async { Ok(()) }).await.unwrap_err().refusal() });
    until(&pool, "one waits", |stats| stats.waiting == 1).await;
    drop(group);
    assert_eq!(timeout(TIMEOUT, waiting).await.unwrap().unwrap(), Refusal::GroupEnded);
    let refused = second.submit(async { Ok(()) }).await.unwrap_err();
    assert_eq!((refused.refusal(), refused.into_job().await), (Refusal::GroupEnded, Ok(())));
    assert_eq!((pool.stats().cancelled, pool.stats().queued, pool.stats().waiting), (1, 0, 0));
    drop(pool.try_submit(async {}).expect("its place is free"));
}

type Split = Pin<Box<dyn Future<Output = Result<u32, BoxError>> + Send>>;

/// Splits a number into halves, down to 1. A half for which there is no room in the queue is split
/// in place.
fn split(number: u32, submitter: GroupSubmitter<u32, BoxError>) -> Split {
    Box::pin(async move {
        if number == 1 {
            return Ok(1);
        }
        let mut in_place = 0;
        for _ in 0..2 {
            if let Err(refused) = submitter.submit(split(number / 2, submitter.clone())).await {
                assert_eq!(refused.refusal(), Refusal::InsideJob);
                in_place += refused.into_job().await?;
            }
        }
        Ok(in_place)
    })
}

#[tokio::test]
async fn a_job_submits_further_jobs_to_its_own_group() {
    let pool = pool(2, 4);
    let mut group = pool.group::<u32, BoxError>();
    group.submit(split(64, group.submitter())).await.unwrap();
    let mut sum = 0;
    while let Some(result) = timeout(TIMEOUT, group.join_next()).await.expect("the group stands still") {
        sum += result.unwrap();
    }
    assert_eq!(sum, 64);
}
