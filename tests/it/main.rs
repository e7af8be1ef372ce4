//! The facade and its examples: all integration tests in one program.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panics, and have tasks and time of their own"
)]

mod clocks;
mod connect;
mod connect_errors;
mod events;
mod every_minute;
mod metrics;
mod periodic;
mod periodic_faults;
mod periodic_threads;
mod pool_cluster;
mod quickstart;
