//! Servers with little room. More mutexes in session mode than one has room for: they are refused,
//! and other clients can still log in. Fewer connections than a store wants: it does with those.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::time::Duration;

use crate::common::*;
use sqlx::{Connection, PgConnection, Row};
use stanchion_conformance::EPSILON;
use stanchion_conformance::outages::work_over_few_connections;
use stanchion_conformance::support::{definite, pause, spawn};
use stanchion_core::{ErrorKind, MutexMode, MutexOptions, Store};
use stanchion_postgres::PostgresStore;
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};
use tokio::task::JoinSet;

const MUTEXES: usize = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c21_ten_thousand_mutexes_leave_room_for_logins() {
    let server = server();
    let store = store(&server.url(), MutexMode::Session, Duration::from_secs(10)).await;
    let (mut held, mut refused) = (Vec::new(), 0);
    for number in 0..MUTEXES {
        let mutex = store.mutex(&format!("m{number}"), MutexOptions::default()).unwrap();
        match mutex.try_lock().await {
            Ok(guard) => held.push(guard.expect("nobody else wants it")),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
                refused += 1;
            }
        }
        if number % 1_000 == 999 {
            let mut other = PgConnection::connect(&server.url()).await.expect("the server accepts a login");
            let locks = sqlx::query("SELECT count(*) FROM pg_locks").fetch_one(&mut other).await.unwrap();
            assert!(locks.get::<i64, _>(0) > 0);
        }
    }
    assert!(refused > 0 && !held.is_empty(), "{refused} refused, {} held", held.len());
    assert!(held.iter().all(stanchion_core::MutexGuard::is_held), "what was granted is kept");
    drop(held);
    store.close().await.unwrap();
    let again = crate::common::store(&server.url(), MutexMode::Session, Duration::from_secs(10)).await;
    let mutex = again.mutex("m9999", MutexOptions::default()).unwrap();
    assert!(mutex.try_lock().await.unwrap().is_some(), "there is room again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_with_the_connections_of_one_all_requests_are_made() {
    let server = PostgresServer::start(PostgresOptions::default().passwords(true)).unwrap();
    deployment::make_schema(&server);
    let mut runs = JoinSet::new();
    let leases = [(1, "on"), (2, "on"), (3, "on"), (1, "off"), (2, "off")];
    let roles = leases.map(|(most, commit)| (most, commit, MutexMode::Lease));
    let by_session = [(4, "on", MutexMode::Session), (5, "on", MutexMode::Session)];
    for (most, commit, mode) in roles.into_iter().chain(by_session) {
        let role = format!("role_{most}_{commit}");
        let mut grants = deployment::grants(&role).join("\n");
        grants += &format!(
            "ALTER ROLE {role} CONNECTION LIMIT {most}; ALTER ROLE {role} SET synchronous_commit = {commit}"
        );
        let url = server.role(&role, "pw", &grants).unwrap();
        runs.spawn(async move {
            let builder = PostgresStore::builder(&url).unwrap().migrate(false).namespace(&role);
            // That of the holds there.
            let builder = builder.mutex(mode).session_ttl(Duration::from_secs(2));
            let store = builder.connect().await.unwrap();
            work_over_few_connections(&store, &role).await;
        });
    }
    while let Some(ran) = runs.join_next().await {
        ran.unwrap();
    }
}

/// A process that does nothing has one connection, and needs a second one for a moment only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_processes_that_start_have_room() {
    const PROCESSES: usize = 15;
    let server = PostgresServer::start(PostgresOptions::default().setting("max_connections", "20")).unwrap();
    let mut stores = Vec::new();
    for _ in 0..PROCESSES {
        stores.push(builder(&server.url(), MutexMode::Lease).connect().await.unwrap());
    }
    for store in &stores {
        let mutex = store.mutex("m", MutexOptions::default()).unwrap();
        definite(|| mutex.try_lock()).await.unwrap().unwrap().release().await.unwrap();
    }
}

/// Processes that start together are many for a moment: a server without room is asked once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_process_that_starts_waits_for_room() {
    let server = PostgresServer::start(PostgresOptions::default().setting("max_connections", "10")).unwrap();
    let mut others = Vec::new();
    while let Ok(other) = PgConnection::connect(&server.url()).await {
        others.push(other);
    }
    let connecting = spawn(builder(&server.url(), MutexMode::Lease).connect());
    pause(EPSILON / 2).await;
    drop(others);
    connecting.join().await.unwrap();
}
