//! The parts of the benchmarks: sides that run alternately, the loads under which they run, tables
//! of results, and hand-written code that people use in place of a library. The peers are in the
//! benches themselves. Not published.
//!
//! `cargo xtask bench` runs all of it.

#![allow(clippy::disallowed_methods, reason = "benchmarks measure real time and run tasks of their own")]

pub mod bench;
pub mod decider;
pub mod figure;
pub mod filter;
pub mod load;
pub mod lock;
pub mod machine;
pub mod measure;
pub mod page;
pub mod plot;
pub mod raw;
mod row;
pub mod table;
pub mod target;

/// The error of a side.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
