//! A job that runs once in two seconds on one of several instances, and on another one if that
//! crashes or its run fails.
//!
//! ```text
//! cargo run --example singleton_job
//! cargo run --example singleton_job --features redis -- redis://127.0.0.1/
//! ```
#![allow(
    clippy::disallowed_methods,
    reason = "a program reads the time and owns its runtime; the library does not"
)]

use std::env;
use std::time::Duration;

use stanchion::{ElectionOptions, Error, FencingToken, Store, StoreExt};
use tokio::time::{Instant, timeout};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let store = stanchion::connect(&url).await?;
    let start = Instant::now();
    // Two instances; in a service each is a process, and its job goes on for ever.
    let instances = store.scope(|store| async {
        tokio::try_join!(instance(store, "Ada", start), instance(store, "Grace", start))
    });
    match timeout(Duration::from_secs(9), instances).await {
        Ok(ended) => ended.map(drop),
        Err(_) => store.close().await,
    }
}

async fn instance(store: &dyn Store, name: &str, start: Instant) -> Result<(), Error> {
    let options = ElectionOptions::new().label(name).ttl(Duration::from_secs(2));
    let make = async |token: FencingToken| {
        println!("{:.1} s: {name} makes the report, token {token}", start.elapsed().as_secs_f64());
        // Every second run fails, and the other instance repeats it.
        if token.get().is_multiple_of(2) { Ok(()) } else { Err("the printer is out of paper") }
    };
    store.every("jobs/report", Duration::from_secs(2), options, make)?.run().await
}
