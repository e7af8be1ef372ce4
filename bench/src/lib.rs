//! Benchmarks beside the peers: what both the criterion benches and the ratio tables run. Not published.

pub mod memory;
pub mod ratio;
pub mod redis;
