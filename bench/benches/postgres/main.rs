//! `cargo bench -p stanchion-bench --bench postgres [-- --quick] [--only MEASURE]`: compares the
//! Postgres store with its peers, on servers started for the bench, with `fsync` and
//! `synchronous_commit` on.

#![allow(clippy::disallowed_methods, reason = "benchmarks measure real time and run tasks of their own")]

mod filters;
mod fixture;
mod growth;
mod hot;
mod idle;
mod locks;
mod peers;

use std::env::temp_dir;
use std::process::ExitCode;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::load::idle::IdleCommand;
use stanchion_bench::machine::{flush, versions};

use crate::fixture::PostgresFixture;

fn main() -> Result<ExitCode, Failure> {
    if let Some(command) = IdleCommand::of_this_process() {
        return idle::child(&command).map(|()| ExitCode::SUCCESS);
    }
    let fixture = PostgresFixture::new()?;
    let mut versions = versions(&["sqlx", "distributed-lock-postgres", "tokio"]);
    versions.insert(0, ("PostgreSQL".to_owned(), fixture.version()?));
    versions
        .push(("a disk that flushes 8 KiB in".to_owned(), format!("{} µs (median)", flush(&temp_dir())?)));
    let mut bench = Bench::from_arguments("postgres", versions);
    locks::uncontended(&mut bench, &fixture)?;
    locks::contended(&mut bench, &fixture)?;
    locks::processes(&mut bench, &fixture)?;
    locks::hand_off(&mut bench, &fixture)?;
    locks::at_zero(&mut bench, &fixture)?;
    hot::semaphore(&mut bench, &fixture)?;
    hot::limiter(&mut bench, &fixture)?;
    hot::names(&mut bench, &fixture)?;
    filters::filters(&mut bench, &fixture)?;
    idle::waiters(&mut bench)?;
    idle::leases(&mut bench)?;
    growth::beside(&mut bench)?;
    growth::queue(&mut bench)?;
    growth::herds(&mut bench)?;
    bench.finish()
}
