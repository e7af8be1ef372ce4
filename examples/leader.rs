//! Two candidates for one post: the holder of the mutex leads, and the other candidate takes over when its term ends.
//!
//! ```text
//! cargo run --example leader
//! cargo run --example leader --features redis -- redis://127.0.0.1/
//! ```
#![expect(clippy::disallowed_methods, reason = "a program sleeps; the library does not")]

use std::env;
use std::time::Duration;

use stanchion::{Mutex, MutexOptions, Result};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<()> {
    let url = env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let store = stanchion::connect(&url).await?;
    let candidate =
        |name| store.mutex("leader", MutexOptions::default().ttl(Duration::from_secs(2)).label(name));
    let (ada, grace) = (candidate("Ada")?, candidate("Grace")?);

    tokio::try_join!(stand(&*ada, "Ada"), stand(&*grace, "Grace"))?;
    store.close().await
}

/// Waits to be the leader, leads for one term and steps down.
async fn stand(post: &dyn Mutex, name: &str) -> Result<()> {
    let guard = post.lock().await?;
    let holders = post.inspect().await?.holders;
    let label = holders.first().and_then(|holder| holder.label.as_deref());
    println!(
        "{name} leads with token {}; the store says: {}",
        guard.fencing_token(),
        label.unwrap_or("nobody")
    );

    // If the lock is lost, the term ends at once instead of overlapping the next one.
    guard.run(sleep(Duration::from_millis(300))).await?;
    println!("{name} steps down");
    guard.release().await
}
