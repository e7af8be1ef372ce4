//! What the benchmarks are made of: sides that run in turn, loads that they run under, tables of what came of it, and
//! what people write by hand in place of a library. The peers are in the benches themselves. Not published.
//!
//! `cargo xtask bench` runs all of it.

#![allow(clippy::disallowed_methods, reason = "benchmarks measure real time and run tasks of their own")]

pub mod bench;
pub mod figure;
pub mod filter;
pub mod gate;
pub mod load;
pub mod lock;
pub mod machine;
pub mod measure;
pub mod page;
pub mod plot;
pub mod raw;
pub mod table;
pub mod target;

/// Why a side could not go on.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
