//! `cargo bench -p stanchion-bench --bench redis [-- --quick] [--only MEASURE]`: compares the Redis
//! store with its peers, on servers started for the bench.

#![allow(clippy::disallowed_methods, reason = "benchmarks measure real time and run tasks of their own")]

mod clients;
mod cluster;
mod filters;
mod fixture;
mod growth;
mod idle;
mod limiters;
mod locks;
mod names;
mod peers;

use std::process::ExitCode;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::load::idle::IdleCommand;
use stanchion_bench::machine::versions;

use crate::fixture::RedisFixture;

fn main() -> Result<ExitCode, Failure> {
    if let Some(command) = IdleCommand::of_this_process() {
        return idle::child(&command).map(|()| ExitCode::SUCCESS);
    }
    let fixture = RedisFixture::new()?;
    let mut versions =
        versions(&["redis", "rslock", "distributed-lock-redis", "distkit", "trypema", "tokio"]);
    versions.insert(0, ("Redis server".to_owned(), fixture.version()?));
    let mut bench = Bench::from_arguments("redis", versions);
    locks::uncontended(&mut bench, &fixture)?;
    locks::contended(&mut bench, &fixture)?;
    locks::hand_off(&mut bench, &fixture)?;
    locks::at_zero(&mut bench, &fixture)?;
    locks::permits(&mut bench, &fixture)?;
    locks::semaphore(&mut bench, &fixture)?;
    limiters::hot(&mut bench, &fixture)?;
    limiters::many(&mut bench, &fixture)?;
    filters::filters(&mut bench, &fixture)?;
    idle::waiters(&mut bench)?;
    idle::leases(&mut bench)?;
    growth::beside(&mut bench)?;
    growth::queue(&mut bench)?;
    growth::behind_the_dead(&mut bench)?;
    growth::herds(&mut bench)?;
    names::used_once(&mut bench)?;
    cluster::silent_node(&mut bench)?;
    bench.finish()
}
