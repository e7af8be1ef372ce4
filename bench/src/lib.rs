//! Benchmarks beside the peers: what both the criterion benches and the ratio tables run. Not published.

pub mod memory;
pub mod postgres;
pub mod ratio;
pub mod redis;
