//! A process that waits keeps its other holds, and shows that it is alive.

use std::time::{Duration, Instant};

use stanchion_core::ErrorKind;
use stanchion_testbed::servers::PostgresOptions;

use super::{ALLOWANCE, Process, connect, in_time, server, soon, start};

#[tokio::test]
async fn c13_a_name_that_finds_no_session_to_wait_on_costs_the_others_nothing() {
    let server = server().await;
    let ttl = Duration::from_secs(1);
    let a = Process::with(server, "no session", ttl, 2);
    let b = Process::new(server, "no session");
    let theirs = b.mutex("theirs").lock().await.unwrap();
    let mutex = a.mutex("theirs");
    // It takes the one session that may wait.
    let first = tokio::spawn(async move { mutex.lock().await.unwrap() });
    soon("it waits", || async { b.mutex("theirs").inspect().await.unwrap().waiters == 1 }).await;
    let ours = a.mutex("ours").lock().await.unwrap();
    let mutex = a.mutex("ours");
    let second = tokio::spawn(async move { mutex.lock().await.unwrap() });
    tokio::time::sleep(3 * ttl).await;
    assert!(ours.is_held() && theirs.is_held());
    let started = Instant::now();
    drop(a.mutex("free").try_lock().await.unwrap().unwrap());
    assert!(started.elapsed() < ALLOWANCE, "{:?}", started.elapsed());
    drop((ours, theirs));
    drop((in_time(first).await, in_time(second).await));
}

#[tokio::test]
async fn c16_a_process_is_heard_each_second_as_soon_as_it_waits() {
    let server = server().await;
    let a = Process::with(server, "heard", Duration::from_secs(30), 4);
    let b = Process::new(server, "heard");
    // Its sessions have been there for a while, with nothing to do.
    let theirs = b.mutex("x").lock().await.unwrap();
    let mutex = a.mutex("x");
    let waiter = tokio::spawn(async move { mutex.lock().await.unwrap() });
    soon("it waits", || async { b.mutex("x").inspect().await.unwrap().waiters == 1 }).await;
    drop(theirs);
    let ours = in_time(waiter).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    // Nothing is tried for this one: it waits behind a hold of its own process.
    let mutex = a.mutex("x");
    let waiter = tokio::spawn(async move { mutex.lock().await.unwrap() });
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let heard: bool = sqlx::query_scalar(
            "SELECT coalesce(max(state_change) > clock_timestamp() - interval '1 s', false)
             FROM pg_stat_activity WHERE application_name = $1
             AND pid <> ALL (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock')",
        )
        .bind(a.application())
        .fetch_one(&mut connect(server).await)
        .await
        .unwrap();
        assert!(heard);
    }
    drop(ours);
    in_time(waiter).await.release().await.unwrap();
}

#[tokio::test]
async fn c17_a_wait_that_the_server_refuses_ends() {
    let server = start(PostgresOptions::default()).await;
    let (a, b) = (Process::new(&server, "refused"), Process::new(&server, "refused"));
    let theirs = b.mutex("x").lock().await.unwrap();
    server.sql("DROP FUNCTION stanchion.session_wait").unwrap();
    let mutex = a.mutex("x");
    let error = in_time(tokio::spawn(async move { mutex.lock().await.err().unwrap() })).await;
    assert_eq!(error.kind(), ErrorKind::ConfigMismatch, "{error}");
    assert!(theirs.is_held());
}
