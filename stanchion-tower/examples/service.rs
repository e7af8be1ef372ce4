//! A web service that runs in several instances: a rate for each API key, a limit of exports at a time, and a report that one of the
//! instances makes every ten seconds. All of it holds over the instances that share the store, and ends together.
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
use stanchion_tower::{ConcurrencyLimitLayer, RateLimitLayer, key};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let url = arguments.next().unwrap_or_else(|| "memory:".to_owned());

    let store = stanchion::connect(&url).await?;
    let rate =
        RateLimitLayer::new(store.clone(), key::header("x-api-key"), Quota::per_second(50).burst(100))?;
    let exports = ConcurrencyLimitLayer::new(store.clone(), "exports", SemaphoreOptions::new(3))?;
    let options = ElectionOptions::new().label(address.as_str());
    let report = store.every("report", Duration::from_secs(10), options, |_| make_report())?;

    let app = Router::new().route("/", get(home)).route("/export", get(export).layer(exports)).layer(rate);
    let (listener, handle) = (TcpListener::bind(&address).await?, report.handle());
    let server = axum::serve(listener, app).with_graceful_shutdown(async move {
        if let Err(error) = ctrl_c().await {
            eprintln!("ends, since it could not be told when to end: {error}");
        }
        handle.withdraw();
    });
    // Ends at the first error, or when both have ended: the server sends the answers that are under way.
    let server = async { Ok::<_, Box<dyn Error>>(server.await?) };
    let report = async { Ok(report.run().await?) };
    tokio::try_join!(server, report)?;
    Ok(store.close().await?)
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
