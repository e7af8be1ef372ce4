//! A process that waits keeps its other holds, and shows that it is alive.

use std::time::Duration;

use stanchion_conformance::EPSILON;
use stanchion_conformance::support::{definite, eventually, pause, within};
use stanchion_core::ErrorKind;
use stanchion_testbed::servers::PostgresOptions;

use super::{Process, SECOND, connect, in_time, server, soon, start};

#[tokio::test]
async fn c13_a_name_that_finds_no_session_to_wait_on_costs_the_others_nothing() {
    let server = server().await;
    // So long that a hold is renewed in time on a machine that stands still for two seconds.
    let ttl = 5 * SECOND;
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
    pause(ttl + SECOND).await;
    assert!(ours.is_held() && theirs.is_held());
    let free = a.mutex("free");
    let had = within(SECOND + EPSILON, "a free one is had", definite(|| free.try_lock()));
    drop(had.await.unwrap().unwrap());
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
    pause(Duration::from_millis(1_500)).await;
    // Nothing is tried for this one: it waits behind a hold of its own process.
    let mutex = a.mutex("x");
    let waiter = tokio::spawn(async move { mutex.lock().await.unwrap() });
    let heard = || async {
        let heard = sqlx::query_scalar::<_, Option<f64>>(
            "SELECT max(extract(epoch FROM state_change))::float8
             FROM pg_stat_activity WHERE application_name = $1
             AND pid <> ALL (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock')",
        );
        heard.bind(a.application()).fetch_one(&mut connect(server).await).await.unwrap()
    };
    for _ in 0..4 {
        let before = heard().await;
        eventually(SECOND + EPSILON, "it is heard again", || async { heard().await > before }).await;
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
