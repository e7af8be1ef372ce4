//! The Redis store: all integration tests in one program.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panics, and have tasks and time of their own"
)]

mod awaits;
mod bloom;
mod bloom_faults;
mod bloom_keys;
mod bloom_rights;
mod cluster;
mod conformance;
mod connection;
mod deployed;
mod fence;
mod filters;
mod foreign;
mod given;
mod hand_off;
mod harness;
mod kept;
mod limits;
mod logins;
mod plain;
mod planted;
mod processes;
mod queue;
mod refusals;
mod replicas;
mod retention;
mod rights;
mod sentinel;
mod steps;
mod support;
mod tls;
mod unsafe_faults;
mod waiters;
