//! A program that locks a mutex and ends without a release, in the way that its first argument
//! says. The tests of program ends start it.

#![expect(clippy::disallowed_methods, reason = "a program owns its runtimes")]

use std::error::Error;
use std::io::{self, Read, Write};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use stanchion::postgres::PostgresStore;
use stanchion::redis::RedisStore;
use stanchion::{MutexGuard, MutexOptions, Store};
use stanchion_campaign::connected;
use stanchion_conformance::support::{definite, now};
use tokio::runtime::{Builder, Runtime};

type Outcome = Result<(), Box<dyn Error>>;

/// Never dropped.
static STORE: OnceLock<Arc<dyn Store>> = OnceLock::new();

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [way, url, name] = arguments.as_slice() else {
        return Err("arguments: the way to end, a URL, a name".into());
    };
    match way.as_str() {
        "return" => many_threads()?.block_on(async {
            let _held = locked(patient(url).await?, name).await?;
            Ok(())
        }),
        "error" => many_threads()?.block_on(async {
            let _held = locked(patient(url).await?, name).await?;
            Err("ends with an error")?;
            Ok(())
        }),
        "panic" => many_threads()?.block_on(async {
            let _held = locked(patient(url).await?, name).await?;
            panic!("ends with a panic");
        }),
        "current-thread" => one_thread()?.block_on(async {
            let _held = locked(patient(url).await?, name).await?;
            Ok(())
        }),
        "dropped-runtime" => {
            let runtime = many_threads()?;
            let held = runtime.block_on(async { locked(patient(url).await?, name).await })?;
            drop(runtime);
            drop(held);
            Ok(())
        }
        "static" => {
            let runtime = one_thread()?;
            let (store, guard) = runtime.block_on(async { locked(patient(url).await?, name).await })?;
            drop(guard);
            STORE.get_or_init(|| store).drain_blocking(Duration::from_secs(20))?;
            Ok(())
        }
        "static-async" => one_thread()?.block_on(async {
            let (store, guard) = locked(patient(url).await?, name).await?;
            drop(guard);
            STORE.get_or_init(|| store).drain().await?;
            Ok(())
        }),
        // Says when it holds the lock, and waits until its server is away.
        "away" => many_threads()?.block_on(async {
            let _held = locked(connected(url).await?, name).await?;
            println!("locked");
            io::stdout().flush()?;
            io::stdin().read_exact(&mut [0])?;
            Ok(())
        }),
        other => Err(format!("no way to end: {other}").into()),
    }
}

fn many_threads() -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

fn one_thread() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Connects with more time for the last release than a busy machine needs: that a server which does
/// not answer costs the default time and no more is shown by `away`.
async fn patient(url: &str) -> stanchion::Result<Arc<dyn Store>> {
    let drain = Duration::from_secs(20);
    let end = now() + drain;
    loop {
        let connected: stanchion::Result<Arc<dyn Store>> = if url.starts_with("redis") {
            RedisStore::builder(url)?.drain(drain).connect().await.map(|store| Arc::new(store) as _)
        } else {
            PostgresStore::builder(url)?.drain(drain).connect().await.map(|store| Arc::new(store) as _)
        };
        match connected {
            Err(error) if error.is_retryable() && now() < end => {}
            connected => return connected,
        }
    }
}

/// Locks the mutex, which is free. The store comes first, so that the guard is dropped last where
/// the two are dropped together.
async fn locked(store: Arc<dyn Store>, name: &str) -> Result<(Arc<dyn Store>, MutexGuard), Box<dyn Error>> {
    let mutex = store.mutex(name, MutexOptions::default())?;
    let guard = definite(|| mutex.try_lock()).await?;
    Ok((store, guard.ok_or("the mutex is held")?))
}
