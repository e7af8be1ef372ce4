//! The example of a job that runs once a minute on one instance.

#![cfg(feature = "postgres")]

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use stanchion::postgres::PostgresStore;
use stanchion::postgres::sqlx::{self, PgPool};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

#[path = "../../examples/every_minute.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a program of its own")]
mod example;

/// Time that the case needs of one minute.
const NEEDED: f64 = 20.0;

/// Waits for a minute that is not over soon.
async fn in_one_minute(pool: &PgPool) {
    let left = "SELECT 60 - extract(second FROM clock_timestamp())::float8";
    let left: f64 = sqlx::query_scalar(left).fetch_one(pool).await.unwrap();
    if left < NEEDED {
        sleep(Duration::from_secs_f64(left + 0.1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_runs_once_a_minute_although_instances_crash() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    let pool = PgPool::connect(&server.url()).await.unwrap();
    let store = PostgresStore::from_pool(pool.clone()).await.unwrap();
    example::prepare(&pool).await.unwrap();
    sqlx::query("CREATE TABLE reports (made int NOT NULL)").execute(&pool).await.unwrap();
    in_one_minute(&pool).await;

    // An instance that crashes in the middle of its run: its connection is closed.
    let crash = example::once_a_minute(&store, &pool, "report", async |transaction| {
        sqlx::query("INSERT INTO reports VALUES (0)").execute(&mut **transaction).await?;
        pending().await
    });
    assert!(timeout(Duration::from_millis(300), crash).await.is_err());
    // One whose job fails, once the server has ended the transaction of the first.
    let failed = async {
        loop {
            let fails =
                example::once_a_minute(&store, &pool, "report", async |_| Err("the job's own error".into()));
            match fails.await {
                Ok(false) => sleep(Duration::from_millis(10)).await,
                ended => break ended,
            }
        }
    };
    let failed = timeout(Duration::from_secs(10), failed).await.unwrap();
    assert_eq!(failed.unwrap_err().to_string(), "the job's own error");

    let (ran, mut instances) = (Arc::new(AtomicU32::new(0)), JoinSet::new());
    for instance in 1..=8 {
        let (store, pool, ran) = (store.clone(), pool.clone(), Arc::clone(&ran));
        instances.spawn(async move {
            for _ in 0..10 {
                let done = example::once_a_minute(&store, &pool, "report", async |transaction| {
                    sqlx::query("INSERT INTO reports VALUES ($1)")
                        .bind(instance)
                        .execute(&mut **transaction)
                        .await?;
                    Ok(())
                });
                ran.fetch_add(u32::from(done.await.unwrap()), Ordering::Relaxed);
                sleep(Duration::from_millis(20)).await;
            }
        });
    }
    while let Some(ended) = instances.join_next().await {
        ended.unwrap();
    }
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    let made: i64 = sqlx::query_scalar("SELECT count(*) FROM reports").fetch_one(&pool).await.unwrap();
    assert_eq!(made, 1, "what was not finished left nothing");
}
