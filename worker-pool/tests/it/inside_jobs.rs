//! Calls of a pool inside its own jobs: a call that could stand still for ever is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::time::Duration;

use crate::common::{TIMEOUT, check_sum, pool, until};
use stanchion_pool::{DrainError, GroupError, JobError, JobHandle, Refusal};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

/// Awaits the output of a job that must not stand still.
async fn output<T>(handle: JobHandle<T>) -> T {
    timeout(TIMEOUT, handle).await.expect("the job stands still").unwrap()
}

#[tokio::test]
async fn jobs_on_all_workers_that_await_jobs_of_their_pool_do_not_stand_still() {
    let pool = pool(2, 10);
    let mut outer = Vec::new();
    for number in 0..2 {
        let inside = pool.clone();
        let job = async move { inside.submit(async move { number }).await.unwrap().await };
        outer.push(pool.submit(job).await.unwrap());
    }
    for handle in outer {
        assert!(matches!(output(handle).await, Err(JobError::InsideJob)));
    }
    pool.drain().await.unwrap();
    assert_eq!(pool.stats().done, 4, "the inner jobs went on");
    check_sum(&pool.stats());
}

#[tokio::test]
async fn a_refused_handle_can_be_awaited_outside() {
    let pool = pool(1, 4);
    let inside = pool.clone();
    let job = async move {
        let mut inner = inside.submit(async { 7 }).await.unwrap();
        let refused = (&mut inner).await;
        (refused, inner)
    };
    let (refused, inner) = output(pool.submit(job).await.unwrap()).await;
    assert!(matches!(refused, Err(JobError::InsideJob)));
    assert_eq!(output(inner).await, 7);
}

#[tokio::test]
async fn a_handle_is_refused_also_when_its_job_has_ended() {
    let pool = pool(2, 4);
    let mut ended = pool.submit(async { 7 }).await.unwrap();
    until(&pool, "it has ended", |_| ended.is_finished()).await;
    let job = async move {
        let refused = (&mut ended).await;
        (refused, ended)
    };
    let (refused, ended) = output(pool.submit(job).await.unwrap()).await;
    assert!(matches!(refused, Err(JobError::InsideJob)));
    assert_eq!(output(ended).await, 7);
}

#[tokio::test]
async fn a_blocking_job_that_waits_for_its_pool_is_refused() {
    let pool = pool(1, 4);
    let (inside, runtime) = (pool.clone(), Handle::current());
    let job = move || {
        let inner = inside.try_submit(async { 7 }).unwrap();
        (runtime.block_on(inner), runtime.block_on(inside.drain()))
    };
    let (inner, drained) = output(pool.submit_blocking(job).await.unwrap()).await;
    assert!(matches!(inner, Err(JobError::InsideJob)));
    assert_eq!(drained, Err(DrainError::InsideJob));
}

#[tokio::test(start_paused = true)]
async fn a_job_is_refused_only_where_it_would_wait_for_room_without_a_limit() {
    let pool = pool(1, 1);
    let inside = pool.clone();
    let job = async move {
        drop(inside.submit(async { 1 }).await.unwrap());
        let refused = inside.submit(async { 2 }).await.unwrap_err();
        let blocking = inside.submit_blocking(|| 3).await.unwrap_err();
        let timed_out = inside.submit_for(async { 4 }, Duration::from_secs(1)).await.unwrap_err();
        let tried = inside.try_submit(async { 5 }).unwrap_err();
        let refusals = [refused.refusal(), blocking.refusal(), timed_out.refusal(), tried.refusal()];
        (refusals, refused.into_job().await)
    };
    let (refusals, in_place) = output(pool.submit(job).await.unwrap()).await;
    assert_eq!(refusals, [Refusal::InsideJob, Refusal::InsideJob, Refusal::TimedOut, Refusal::Full]);
    assert_eq!(in_place, 2, "the refused job came back");
    assert_eq!(pool.stats().waiting, 0);
    pool.drain().await.unwrap();
    assert_eq!((pool.stats().submitted, pool.stats().done), (2, 2));
}

#[tokio::test]
async fn a_group_inside_a_job_is_refused_while_a_result_is_to_come() {
    let pool = pool(1, 4);
    let inside = pool.clone();
    let job = async move {
        let mut group = inside.group::<u32, String>();
        assert!(group.next().await.is_none());
        assert!(group.join_next().await.is_none());
        group.submit(async { Ok(7) }).await.unwrap();
        let next = group.next().await;
        let join_next = group.join_next().await;
        (next, join_next, group)
    };
    let (next, join_next, group) = output(pool.submit(job).await.unwrap()).await;
    assert!(matches!(next, Some(Err(GroupError::InsideJob))));
    assert!(matches!(join_next, Some(Err(GroupError::InsideJob))));
    assert_eq!(timeout(TIMEOUT, group.join()).await.unwrap().unwrap(), [7]);
}

#[tokio::test]
async fn a_join_inside_a_job_is_refused_and_cancels_the_group() {
    let pool = pool(1, 4);
    let inside = pool.clone();
    let job = async move {
        let group = inside.group::<(), String>();
        group.submit(std::future::pending()).await.unwrap();
        group.join().await
    };
    let joined = output(pool.submit(job).await.unwrap()).await;
    assert!(matches!(joined, Err(GroupError::InsideJob)));
    until(&pool, "the group's job is cancelled", |stats| stats.cancelled == 1).await;
}

#[tokio::test]
async fn drain_inside_a_job_is_refused_and_leaves_the_pool_open() {
    let pool = pool(1, 4);
    let inside = pool.clone();
    let drained = output(pool.submit(async move { inside.drain().await }).await.unwrap()).await;
    assert_eq!(drained, Err(DrainError::InsideJob));
    assert!(!pool.stats().closed);
    assert_eq!(output(pool.submit(async { 7 }).await.unwrap()).await, 7);
    pool.drain().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn shutdown_inside_a_job_ends_in_time_with_that_job() {
    let pool = pool(1, 4);
    let inside = pool.clone();
    let start = Instant::now();
    let job = async move { inside.shutdown(Duration::from_secs(5)).await.returned.len() };
    let job = pool.submit(job).await.unwrap();
    let id = job.id();
    let queued = pool.submit(async {}).await.unwrap();
    assert!(matches!(timeout(TIMEOUT, job).await.unwrap(), Err(JobError::Aborted)));
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    let report = pool.shutdown(Duration::ZERO).await;
    assert_eq!((report.returned.len(), report.aborted), (1, vec![id]));
    drop(report.returned);
    assert!(matches!(queued.await, Err(JobError::NotRun)));
}

#[tokio::test]
async fn another_pool_can_be_awaited_and_drained_inside_a_job() {
    let (outer, inner) = (pool(1, 1), pool(1, 1));
    let job = async move {
        let number = inner.submit(async { 7 }).await.unwrap().await.unwrap();
        inner.drain().await.unwrap();
        number
    };
    assert_eq!(output(outer.submit(job).await.unwrap()).await, 7);
}

#[tokio::test]
async fn a_task_that_a_job_spawned_may_wait_for_the_pool() {
    let pool = pool(1, 4);
    let inside = pool.clone();
    let job = async move {
        let inner = inside.submit(async { 7 }).await.unwrap();
        let spawned = tokio::spawn(inner);
        Some(spawned)
    };
    let spawned = output(pool.submit(job).await.unwrap()).await.unwrap();
    assert_eq!(timeout(TIMEOUT, spawned).await.unwrap().unwrap().unwrap(), 7);
}

#[test]
fn each_refusal_names_the_call_and_the_way_out() {
    let group = GroupError::<String>::InsideJob;
    assert_eq!(group.index(), None);
    let texts = [
        (JobError::InsideJob.to_string(), "waits for another job", "await the handle outside"),
        (Refusal::InsideJob.to_string(), "would wait for room", "run the refused job in place"),
        (group.to_string(), "waits for a group", "await the group outside"),
        (DrainError::InsideJob.to_string(), "drains its own pool", "drain the pool outside"),
    ];
    for (text, call, way_out) in texts {
        assert!(text.contains(call) && text.contains(way_out), "{text}");
        assert!(!text.contains('\n') && !text.contains("  "), "{text}");
    }
}
