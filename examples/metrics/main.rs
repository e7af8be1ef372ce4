//! Serves the metrics of a store for Prometheus, while a few tasks use it. The dashboard beside
//! this file shows them in Grafana.
//!
//! `cargo run --example metrics --features metrics -- 127.0.0.1:9464 memory:` serves
//! `http://127.0.0.1:9464/metrics`. The second argument is the URL of any store.

#![allow(clippy::disallowed_methods, reason = "a program owns its runtime, and sleeps; the library does not")]

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use stanchion::{ErrorKind, LimiterOptions, MutexOptions, Quota, SemaphoreOptions, Store, metering};
use tokio::time::sleep;

/// Upper bounds of the buckets, in seconds. Without them an exporter may give quantiles, which
/// cannot be added up over instances.
const BUCKETS: [f64; 10] = [0.0001, 0.0005, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:9464".to_owned()).parse()?;
    let url = arguments.next().unwrap_or_else(|| "memory:".to_owned());
    // First of all: what happens before is not counted.
    serve(address)?;
    let store = stanchion::connect(&url).await?;
    println!("http://{address}/metrics");
    match work(store).await? {}
}

/// Installs the recorder of this process, and serves what it records.
///
/// # Errors
/// If the process has a recorder, or the address is taken.
pub fn serve(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let seconds = Matcher::Suffix("_seconds".to_owned());
    let builder = PrometheusBuilder::new().with_http_listener(address);
    builder.set_buckets_for_metric(seconds, &BUCKETS)?.install()?;
    // `invoices/7` and `invoices/8` are counted together, and everything that has no group is
    // `other`.
    metering::group_by(|_, name| match name.split_once('/') {
        Some(("invoices", _)) => "invoices".into(),
        _ => "other".into(),
    });
    Ok(())
}

/// Uses the store for ever, also while it is away: mutexes that several tasks want, a semaphore
/// that is full at times, a limiter that refuses.
///
/// # Errors
/// Those that waiting does not mend.
pub async fn work(store: Arc<dyn Store>) -> stanchion::Result<Infallible> {
    let store = &*store;
    tokio::select! {
        ended = bill(store, 1) => ended,
        ended = bill(store, 1) => ended,
        ended = bill(store, 2) => ended,
        ended = export(store) => ended,
        ended = export(store) => ended,
        ended = call(store) => ended,
    }
}

/// Tells of an error that passes, as that of a store that is away, and leaves it at that.
fn passing<T>(answer: stanchion::Result<T>) -> stanchion::Result<Option<T>> {
    match answer {
        Err(error) if error.kind().is_retryable() || error.kind() == ErrorKind::Lost => {
            eprintln!("{error}");
            Ok(None)
        }
        answer => answer.map(Some),
    }
}

async fn bill(store: &dyn Store, number: u64) -> stanchion::Result<Infallible> {
    let options = MutexOptions::new().ttl(Duration::from_secs(5));
    let invoice = store.mutex(&format!("invoices/{number}"), options)?;
    loop {
        let guard = invoice.lock().await?;
        sleep(Duration::from_millis(5)).await;
        passing(guard.release().await)?;
        passing(invoice.inspect().await)?;
    }
}

async fn export(store: &dyn Store) -> stanchion::Result<Infallible> {
    let exports = store.semaphore("exports", SemaphoreOptions::new(1))?;
    loop {
        let permit = passing(exports.try_acquire().await)?;
        sleep(Duration::from_millis(7)).await;
        drop(permit);
    }
}

async fn call(store: &dyn Store) -> stanchion::Result<Infallible> {
    let calls = store.limiter("partner", LimiterOptions::new(Quota::per_second(20).burst(5)))?;
    loop {
        passing(calls.allow().await)?;
        sleep(Duration::from_millis(20)).await;
    }
}
