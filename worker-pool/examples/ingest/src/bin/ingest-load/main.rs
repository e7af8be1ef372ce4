//! Loads the endpoint, ends it with `SIGTERM` under load, and compares its answers with the
//! payloads that it stored.
//!
//! ```text
//! cargo run --release -p stanchion-ingest --bin ingest-load -- --seconds 60
//! ```

#![expect(clippy::disallowed_methods, reason = "a program owns its runtime, reads its clock and sleeps")]

mod audit;
mod connection;
mod memory;
mod payload;
mod server;
mod settings;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::audit::Audit;
use crate::connection::{Connection, Record};
use crate::memory::Memory;
use crate::server::Server;
use crate::settings::{Settings, USAGE};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let settings = match Settings::parse(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(mistake) => {
            eprintln!("{mistake}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match load(&settings).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Does one run; returns whether every payload was answered and stored as promised.
async fn load(settings: &Settings) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let mut server = Server::start(&settings.server, folder.path(), &settings.options).await?;
    let stopping = Arc::new(AtomicBool::new(false));
    let start = Instant::now();
    let mut connections = JoinSet::new();
    for number in 0..settings.connections {
        let connection = Connection::open(server.address(), number, settings).await?;
        connections.spawn(connection.run(Arc::clone(&stopping)));
    }

    let time = Duration::from_secs(settings.seconds.into());
    sleep(time / 4).await;
    let early = Memory::of(server.pid())?;
    sleep(time.saturating_sub(start.elapsed())).await;
    let late = Memory::of(server.pid())?;
    // Later answers count as answers, but not for the rate.
    stopping.store(true, Ordering::Release);
    let loaded = start.elapsed();
    server.terminate()?;

    let mut records: Vec<Record> = Vec::new();
    for record in connections.join_all().await {
        records.push(record?);
    }
    records.sort_unstable_by_key(|record| record.number);
    let summary = server.end().await?;
    let audit = Audit::of(&records, folder.path(), settings)?;
    println!("{}", audit.report(loaded));
    println!("server: {summary}");
    println!("its memory: {early} after a quarter of the time, {late} at the end");
    Ok(audit.is_well())
}
