//! A job that runs once a minute on one of several instances, whichever comes first, and on another one if that crashes; the note
//! that it ran is kept on Redis.
//!
//! The note comes after the job. A run that did not end is repeated, and so is one whose instance crashed before it wrote the note: the
//! job has to be idempotent, or to keep its effects behind a fence. The time is that of the server.
//!
//! ```text
//! cargo run --example every_minute_redis --features redis -- redis://127.0.0.1/
//! ```
#![allow(clippy::disallowed_methods, reason = "a program sleeps; the library does not")]

use std::env;
use std::error::Error;
use std::time::Duration;

use stanchion::redis::RedisFence;
use stanchion::redis::redis::aio::MultiplexedConnection;
use stanchion::redis::redis::{AsyncCommands, Client, cmd};
use stanchion::{FencingToken, Store, StoreExt};
use tokio::time::sleep;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let url = env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1/".to_owned());
    let connection = Client::open(url.as_str())?.get_multiplexed_async_connection().await?;
    let store = stanchion::connect(&url).await?;
    // Two instances; in a service each is a process.
    store
        .scope(async |store| {
            tokio::try_join!(instance(store, &connection, "first"), instance(store, &connection, "second"))
        })
        .await?;
    Ok(())
}

async fn instance(store: &dyn Store, connection: &MultiplexedConnection, instance: &str) -> Outcome<()> {
    for _ in 0..130 {
        let ran = once_a_minute(store, connection, "report", async |_| {
            println!("the {instance} instance makes the report");
            Ok(())
        });
        ran.await?;
        sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// Runs a job unless it has run in this minute or another instance is running it; returns whether it ran. `run` is dropped when the
/// lock is lost.
///
/// # Errors
/// That of the job or of the server; `Lost` if the lock was lost. Then the minute is not done.
pub async fn once_a_minute(
    store: &dyn Store,
    connection: &MultiplexedConnection,
    job: &str,
    run: impl AsyncFnOnce(FencingToken) -> Outcome<()>,
) -> Outcome<bool> {
    // The braces put the note and its fence into one slot of a cluster.
    let (done, fence) = (format!("{{job:{job}}}:done"), RedisFence::new(format!("{{job:{job}}}:fence")));
    let mut connection = connection.clone();
    let mutex = store.mutex(&format!("jobs/{job}"), Default::default())?;
    let Some(guard) = mutex.try_lock().await? else { return Ok(false) };
    // Read once the lock is held; the run is of that minute, however long it takes.
    let (seconds, _): (u64, u64) = cmd("TIME").query_async(&mut connection).await?;
    let minute = seconds / 60;
    if connection.get::<_, Option<u64>>(&done).await? >= Some(minute) {
        guard.release().await?;
        return Ok(false);
    }
    guard.run(run(guard.fencing_token())).await??;
    // A holder that was overtaken meanwhile is refused.
    fence.set(&mut connection, &guard, &done, minute).await?;
    guard.release().await?;
    Ok(true)
}
