//! `call-path frames`: the stack from a call of the public interface to the client library, call by
//! call. `call-path allocations`: how often a lock and its release allocate, beside code by hand.
//! `cargo xtask path` builds and runs both.

#![allow(clippy::disallowed_methods, reason = "a program has a runtime of its own")]

mod allocator;
mod by_hand;
mod calls;
mod path;

use std::error::Error;
use std::process::ExitCode;

use stanchion_testbed::servers::{RedisOptions, RedisServer};

use crate::allocator::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<ExitCode, Failure> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let show = arguments.contains(&"--show");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let server = RedisServer::start(RedisOptions::default())?;
    match arguments.first() {
        Some(&"frames") => runtime.block_on(calls::print_paths(&server.url(), show))?,
        Some(&"allocations") => runtime.block_on(calls::print_allocations(&server.url()))?,
        _ => {
            eprintln!("usage: call-path frames [--show] | allocations");
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
