//! `cargo bench -p stanchion-bench --bench postgres [-- --quick] [--only MEASURE]`: the Postgres store beside its peers, on
//! servers of its own, with `fsync` and `synchronous_commit` on.

#![allow(clippy::disallowed_methods, reason = "benchmarks measure real time and run tasks of their own")]

mod bed;
mod filters;
mod growth;
mod hot;
mod idle;
mod locks;
mod peers;

use std::process::ExitCode;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::load::idle::Orders;
use stanchion_bench::machine::versions;

use crate::bed::Bed;

fn main() -> Result<ExitCode, Failure> {
    if let Some(orders) = Orders::of_this_process() {
        return idle::child(&orders).map(|()| ExitCode::SUCCESS);
    }
    let bed = Bed::new()?;
    let mut versions = versions(&["sqlx", "distributed-lock-postgres", "tokio"]);
    versions.insert(0, ("PostgreSQL".to_owned(), bed.version()?));
    let mut bench = Bench::from_arguments("postgres", versions);
    locks::uncontended(&mut bench, &bed)?;
    locks::contended(&mut bench, &bed)?;
    locks::hand_off(&mut bench, &bed)?;
    locks::at_zero(&mut bench, &bed)?;
    hot::semaphore(&mut bench, &bed)?;
    hot::limiter(&mut bench, &bed)?;
    hot::names(&mut bench, &bed)?;
    filters::filters(&mut bench, &bed)?;
    idle::waiters(&mut bench)?;
    idle::leases(&mut bench)?;
    growth::beside(&mut bench)?;
    growth::queue(&mut bench)?;
    bench.finish()
}
