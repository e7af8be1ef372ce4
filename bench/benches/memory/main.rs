//! `cargo bench -p stanchion-bench --bench memory [-- --quick] [--only MEASURE]`: compares the
//! memory store with its peers.

#![allow(clippy::disallowed_methods, reason = "benchmarks measure real time and run tasks of their own")]

mod filters;
mod growth;
mod limiters;
mod locks;
mod peers;
mod threads;

use std::process::ExitCode;
use std::sync::Arc;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::load::idle::IdleCommand;
use stanchion_bench::machine::versions;
use tokio::runtime::{Builder, Runtime};

/// The runtimes of all measures.
struct Runtimes {
    one: Runtime,
    two: Runtime,
}

fn main() -> Result<ExitCode, Failure> {
    let one = Builder::new_current_thread().enable_all().build()?;
    let two = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let runtimes = Runtimes { one, two };
    if let Some(command) = IdleCommand::of_this_process() {
        return locks::idle(&runtimes, &command).map(|()| ExitCode::SUCCESS);
    }
    let versions = versions(&[
        "tokio",
        "async-lock",
        "lockable",
        "parking_lot",
        "dashmap",
        "governor",
        "leaky-bucket",
        "fastbloom",
    ]);
    let mut bench = Bench::from_arguments("memory", versions);
    locks::uncontended(&mut bench, &runtimes)?;
    locks::rotation(&mut bench, &runtimes)?;
    locks::hand_off(&mut bench, &runtimes)?;
    locks::contended(&mut bench, &runtimes)?;
    threads::threads(&mut bench, &runtimes)?;
    locks::waiters(&mut bench)?;
    limiters::hot(&mut bench, &runtimes)?;
    limiters::many(&mut bench, &runtimes)?;
    filters::filters(&mut bench, &runtimes)?;
    growth::growth(&mut bench, &runtimes)?;
    bench.finish()
}

/// Leaks a value, because the guards of peers borrow what they lock.
fn keep<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Returns the name with this index.
fn name(index: usize) -> &'static str {
    keep(format!("invoices/{index}"))
}

/// Opens a memory store.
fn store() -> Arc<dyn stanchion_core::Store> {
    Arc::new(stanchion_memory::MemoryStore::new())
}
