//! Two candidates for one post: one leads at a time, and the other takes over when the leader steps
//! down.
//!
//! ```text
//! cargo run --example leader
//! cargo run --example leader --features redis -- redis://127.0.0.1/
//! ```
#![expect(clippy::disallowed_methods, reason = "a program sleeps; the library does not")]

use std::env;
use std::time::Duration;

use stanchion::{ElectionOptions, Result, Store, StoreExt};
use tokio::sync::Notify;
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<()> {
    let url = env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let store = stanchion::connect(&url).await?;
    store
        .scope(|store| async { tokio::try_join!(stand(store, "Ada"), stand(store, "Grace")).map(|_| ()) })
        .await
}

/// Stands for election, and stops when its term is over.
async fn stand(store: &dyn Store, name: &str) -> Result<()> {
    let options = ElectionOptions::new().label(name).ttl(Duration::from_secs(2));
    let (observer, over) = (store.observe_election("leader")?, Notify::new());
    let election = store.elect("leader", options, async |token| {
        let label = observer.leader().await.ok().flatten().and_then(|leader| leader.label);
        println!(
            "{name} leads with token {token}; the store says: {}",
            label.as_deref().unwrap_or("nobody yet")
        );
        // Dropped here, if the lock is lost, instead of overlapping the next term.
        sleep(Duration::from_millis(300)).await;
        println!("{name} steps down");
        over.notify_one();
    })?;
    let handle = election.handle();
    let withdraw = async {
        over.notified().await;
        handle.withdraw();
        Ok(())
    };
    tokio::try_join!(election.run(), withdraw).map(|_| ())
}
