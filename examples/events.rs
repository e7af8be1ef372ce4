//! What the library tells by `tracing`: a wait that was long, and, on a networked store whose
//! server goes away, the outage and the loss of the lock.
//!
//! ```text
//! cargo run --example events
//! # Elsewhere meanwhile: kill -STOP $(pidof redis-server); sleep 4; kill -CONT $(pidof redis-server)
//! cargo run --example events --features redis -- redis://127.0.0.1/
//! ```
#![expect(clippy::disallowed_methods, reason = "a program sleeps; the library does not")]

use std::env;
use std::time::Duration;

use stanchion::{MutexOptions, Result, StoreExt};
use tokio::time::sleep;
use tracing::Level;

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_max_level(Level::INFO).with_ansi(false).init();
    let url = env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let store = stanchion::connect(&url).await?;
    store
        .scope(|store| async {
            let options = MutexOptions::new().ttl(Duration::from_secs(2)).label("host a");
            let mutex = store.mutex("invoices/42", options)?;
            let holder = async {
                let guard = mutex.lock().await?;
                tokio::select! {
                    () = guard.lost() => Ok(()),
                    () = sleep(Duration::from_secs(3)) => guard.release().await,
                }
            };
            // They ask after the holder: the first of them has no patience, the second waits until
            // it is free.
            let impatient = async { mutex.lock_for(Duration::from_millis(1200)).await.map(drop) };
            let patient = async { mutex.lock().await.map(drop) };
            tokio::try_join!(holder, impatient, patient).map(drop)
        })
        .await
}
