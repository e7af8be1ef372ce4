//! A process that waits keeps its other holds, and shows that it is alive.

use stanchion_conformance::EPSILON;
use stanchion_conformance::support::{definite, pause, within};
use stanchion_core::ErrorKind;
use stanchion_testbed::servers::PostgresOptions;

use super::{Process, SECOND, in_time, server, soon, start};

#[tokio::test]
async fn c13_waiters_cost_the_holds_of_their_process_nothing() {
    let server = server().await;
    // So long that a hold is renewed in time on a machine that stands still for two seconds.
    let ttl = 5 * SECOND;
    let a = Process::with(server, "no session", ttl);
    let b = Process::new(server, "no session");
    let theirs = b.mutex("theirs").lock().await.unwrap();
    let mutex = a.mutex("theirs");
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
async fn c17_a_wait_that_the_server_refuses_ends() {
    let server = start(PostgresOptions::default()).await;
    let (a, b) = (Process::new(&server, "refused"), Process::new(&server, "refused"));
    let theirs = b.mutex("x").lock().await.unwrap();
    server.sql("DROP FUNCTION stanchion.acquire").unwrap();
    let mutex = a.mutex("x");
    let error = in_time(tokio::spawn(async move { mutex.lock().await.err().unwrap() })).await;
    assert_eq!(error.kind(), ErrorKind::ConfigMismatch, "{error}");
    assert!(theirs.is_held());
}
