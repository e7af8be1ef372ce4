//! A job that runs once a minute on one of several instances, whichever comes first, and on another
//! one if that crashes.
//!
//! The job and the note that it ran are one transaction, so that a run that did not end left
//! nothing, and one that ended is not repeated. The time is that of the database.
//!
//! ```text
//! cargo run --example every_minute --features postgres -- postgres://localhost/app
//! ```
#![allow(clippy::disallowed_methods, reason = "a program sleeps; the library does not")]

use std::error::Error;
use std::time::Duration;

use stanchion::Store;
use stanchion::postgres::PostgresStore;
use stanchion::postgres::sqlx::{self, PgPool, Postgres, Transaction};
use tokio::time::sleep;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The last minute that is done of each job.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS job_runs (job text PRIMARY KEY, done timestamptz NOT NULL)";
/// This minute, unless it is done. Read once the lock is held; the run is of that minute, however
/// long it takes.
const DUE: &str = "SELECT minute::text FROM date_trunc('minute', clock_timestamp()) AS minute
    WHERE NOT EXISTS (SELECT FROM job_runs WHERE job = $1 AND done >= minute)";
const DONE: &str = "INSERT INTO job_runs VALUES ($1, $2::timestamptz)
    ON CONFLICT (job) DO UPDATE SET done = excluded.done";

#[tokio::main]
async fn main() -> Outcome<()> {
    let url = std::env::args().nth(1).ok_or("argument: the URL of a Postgres")?;
    let pool = PgPool::connect(&url).await?;
    let store = PostgresStore::from_pool(pool.clone()).await?;
    prepare(&pool).await?;
    // Two instances; in a service each is a process.
    let instances = ["first", "second"].map(|instance| {
        let (store, pool) = (store.clone(), pool.clone());
        tokio::spawn(async move {
            for _ in 0..130 {
                let ran = once_a_minute(&store, &pool, "report", async |_| {
                    println!("the {instance} instance makes the report");
                    Ok(())
                });
                ran.await?;
                sleep(Duration::from_secs(1)).await;
            }
            Outcome::Ok(())
        })
    });
    for instance in instances {
        instance.await??;
    }
    Ok(store.close().await?)
}

/// Makes the table of runs.
///
/// # Errors
/// That of the database.
pub async fn prepare(pool: &PgPool) -> Outcome<()> {
    sqlx::query(TABLE).execute(pool).await?;
    Ok(())
}

/// Runs a job unless it has run in this minute or another instance is running it; returns whether
/// it ran.
///
/// # Errors
/// That of the job, of the database or of the store; then nothing has happened.
pub async fn once_a_minute(
    store: &PostgresStore,
    pool: &PgPool,
    job: &str,
    run: impl AsyncFnOnce(&mut Transaction<'_, Postgres>) -> Outcome<()>,
) -> Outcome<bool> {
    let mut transaction = pool.begin().await?;
    // Freed by the end of the transaction, also by that of the process.
    if store.try_lock_in(&mut transaction, &format!("jobs/{job}")).await?.is_none() {
        return Ok(false);
    }
    let due = sqlx::query_scalar::<_, String>(DUE).bind(job).fetch_optional(&mut *transaction).await?;
    let Some(minute) = due else { return Ok(false) };
    run(&mut transaction).await?;
    sqlx::query(DONE).bind(job).bind(minute).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(true)
}
