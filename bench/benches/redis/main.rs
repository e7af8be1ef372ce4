//! `cargo bench -p stanchion-bench --bench redis [-- --quick] [--only MEASURE]`: the Redis store beside its peers, on
//! servers of its own.

#![allow(clippy::disallowed_methods, reason = "benchmarks measure real time and run tasks of their own")]

mod bed;
mod clients;
mod filters;
mod growth;
mod idle;
mod limiters;
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
    let mut versions =
        versions(&["redis", "rslock", "distributed-lock-redis", "distkit", "trypema", "tokio"]);
    versions.insert(0, ("Redis server".to_owned(), bed.version()?));
    let mut bench = Bench::from_arguments("redis", versions);
    locks::uncontended(&mut bench, &bed)?;
    locks::contended(&mut bench, &bed)?;
    locks::hand_off(&mut bench, &bed)?;
    locks::at_zero(&mut bench, &bed)?;
    locks::semaphore(&mut bench, &bed)?;
    limiters::hot(&mut bench, &bed)?;
    limiters::many(&mut bench, &bed)?;
    filters::filters(&mut bench, &bed)?;
    idle::waiters(&mut bench)?;
    idle::leases(&mut bench)?;
    growth::beside(&mut bench)?;
    growth::queue(&mut bench)?;
    bench.finish()
}
