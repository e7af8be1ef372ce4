//! Connections of a pool of the user's, in which other code of the program leaves transactions
//! open.

#![allow(clippy::unwrap_used, reason = "tests fail by panic")]

use std::time::Duration;

use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::raw_sql;
use stanchion_conformance::EPSILON;
use stanchion_core::{MutexMode, MutexOptions, Store};
use stanchion_postgres::{PostgresBuilder, PostgresStore};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

/// A pool of one connection, so that the store's next step has the one that was left.
async fn lone(server: &PostgresServer, is_tested: bool) -> PgPool {
    let options = PgPoolOptions::new().max_connections(1).test_before_acquire(is_tested);
    options.connect(&server.url()).await.unwrap()
}

async fn store(pool: &PgPool) -> PostgresStore {
    let builder = PostgresBuilder::from_pool(pool.clone()).mutex(MutexMode::Lease);
    builder.request_timeout(Duration::from_secs(2)).connect().await.unwrap()
}

/// Gives a connection back in a state that `sqlx` does not know of, as where a future of `begin` is
/// dropped before the answer.
async fn leave(pool: &PgPool, statements: &'static str) {
    let mut connection = pool.acquire().await.unwrap();
    // The last statement may fail, and leave a transaction that is aborted.
    drop(raw_sql(statements).execute(&mut *connection).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m1_a_grant_is_no_part_of_a_transaction_that_was_left_in_the_pool() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    for is_tested in [true, false] {
        let pool = lone(&server, is_tested).await;
        let (first, second) = (store(&pool).await, store(&lone(&server, true).await).await);
        leave(&pool, "BEGIN").await;
        let name = format!("tested {is_tested}");
        let guard = first.mutex(&name, MutexOptions::new()).unwrap().try_lock().await.unwrap().unwrap();
        // The grant is committed: others see it, and wait for no row.
        assert!(second.mutex(&name, MutexOptions::new()).unwrap().try_lock().await.unwrap().is_none());
        guard.release().await.unwrap();
        let idle =
            server.sql("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'");
        assert_eq!(idle.unwrap().trim(), "0");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c18_a_connection_with_an_aborted_transaction_is_given_up() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    let pool = lone(&server, true).await;
    let store = store(&pool).await;
    leave(&pool, "BEGIN; SELECT 1 / 0").await;
    let mutex = store.mutex("a", MutexOptions::new()).unwrap();
    // The one call that meets it was not executed, and says so; or it was made again.
    if let Err(error) = mutex.try_lock().await {
        assert!(error.kind() == stanchion_core::ErrorKind::Unavailable, "{error:?}");
    }
    drop(mutex.try_lock().await.unwrap().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c11_what_is_held_is_released_after_the_users_pool_was_closed() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    let pool = lone(&server, true).await;
    let (store, other) = (store(&pool).await, store(&lone(&server, true).await).await);
    let mutex = |store: &PostgresStore, name: &str| store.mutex(name, MutexOptions::new()).unwrap();
    let released = mutex(&store, "released").lock().await.unwrap();
    let dropped = mutex(&store, "dropped").lock().await.unwrap();
    pool.close().await;
    released.release().await.unwrap();
    drop(dropped);
    for name in ["released", "dropped"] {
        let next = mutex(&other, name).lock_for(EPSILON * 4).await.unwrap();
        next.expect("it is free").release().await.unwrap();
    }
    store.close().await.unwrap();
}
