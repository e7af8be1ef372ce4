//! `cargo bench -p stanchion-bench --bench memory [-- --quick] [--only MEASURE]`: the memory store beside its peers.

#![allow(clippy::disallowed_methods, reason = "benchmarks measure real time and run tasks of their own")]

mod filters;
mod growth;
mod limiters;
mod locks;
mod peers;

use std::process::ExitCode;
use std::sync::Arc;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::load::idle::Orders;
use stanchion_bench::machine::versions;
use tokio::runtime::{Builder, Runtime};

/// The runtimes that everything runs on.
struct Bed {
    one: Runtime,
    two: Runtime,
}

fn main() -> Result<ExitCode, Failure> {
    let one = Builder::new_current_thread().enable_all().build()?;
    let two = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let bed = Bed { one, two };
    if let Some(orders) = Orders::of_this_process() {
        return locks::idle(&bed, &orders).map(|()| ExitCode::SUCCESS);
    }
    let versions =
        versions(&["tokio", "async-lock", "lockable", "dashmap", "governor", "leaky-bucket", "fastbloom"]);
    let mut bench = Bench::from_arguments("memory", versions);
    locks::uncontended(&mut bench, &bed)?;
    locks::turns(&mut bench, &bed)?;
    locks::hand_off(&mut bench, &bed)?;
    locks::contended(&mut bench, &bed)?;
    locks::waiters(&mut bench)?;
    limiters::hot(&mut bench, &bed)?;
    limiters::many(&mut bench, &bed)?;
    filters::filters(&mut bench, &bed)?;
    growth::growth(&mut bench, &bed)?;
    bench.finish()
}

/// Makes something live as long as the process: peers' guards borrow what they lock.
fn keep<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// A name for each of so many.
fn name(index: usize) -> &'static str {
    keep(format!("invoices/{index}"))
}

/// The memory store.
fn store() -> Arc<dyn stanchion_core::Store> {
    Arc::new(stanchion_memory::MemoryStore::new())
}
