//! A web service that runs in several instances: a rate for each API key, a limit of exports at a
//! time, and a report that one of the instances makes every ten seconds. All of it holds over the
//! instances that share the store, and ends together.
//!
//! ```text
//! cargo run -p stanchion-tower --example service -- 127.0.0.1:8080 redis://127.0.0.1/
//! cargo run -p stanchion-tower --example service -- 127.0.0.1:8081 redis://127.0.0.1/
//! ```
#![allow(
    clippy::clone_on_ref_ptr,
    clippy::disallowed_methods,
    reason = "a program owns its runtime, and clones as programs do"
)]

use std::env;
use std::error::Error;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use stanchion::{ElectionOptions, Quota, SemaphoreOptions, StoreExt};
use stanchion_tower::{LayerExt, key};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;

/// After this time others have what an instance that was killed had: its permits and its job.
const LEASE: Duration = Duration::from_secs(4);
/// Time between two reports.
const PERIOD: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let url = arguments.next().unwrap_or_else(|| "memory:".to_owned());

    let store = stanchion::connect(&url).await?;
    let rate = store.rate_limit("api/", key::header("x-api-key"), Quota::per_second(50).burst(100))?;
    let exports = store.concurrency_limit("exports", SemaphoreOptions::new(3).ttl(LEASE))?;
    let options = ElectionOptions::new().label(&address).ttl(LEASE);
    let report = store.every("report", PERIOD, options, |_| make_report())?;

    let app = Router::new().route("/", get(home)).route("/export", get(export).layer(exports)).layer(rate);
    let listener = TcpListener::bind(&address).await?;
    // Ends once the answers that are under way are sent.
    let server = axum::serve(listener, app).with_graceful_shutdown(shutdown());
    // Ends the job with the server. A run that is under way is repeated by another instance.
    report.run_while(server).await??;
    Ok(store.close().await?)
}

async fn shutdown() {
    if let Err(error) = ctrl_c().await {
        eprintln!("ends, since it could not be told when to end: {error}");
    }
}

async fn home() -> &'static str {
    "hello\n"
}

async fn export() -> &'static str {
    "id,name\n"
}

async fn make_report() -> io::Result<()> {
    tokio::io::stdout().write_all(b"makes the report\n").await
}
