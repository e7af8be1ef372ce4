//! The Redis store: all integration tests in one program.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panics, and have tasks and time of their own"
)]

mod bloom;
mod bloom_faults;
mod bloom_keys;
mod bloom_rights;
mod checks;
mod clients;
mod cluster;
mod cluster_slots;
mod common;
mod conformance;
mod connection;
mod fast_path;
mod fast_permits;
mod fence;
mod filters;
mod foreign;
mod hand_off;
mod kept;
mod large_names;
mod limits;
mod listing;
mod logins;
mod lost_commands;
mod mutants;
mod namespaces;
mod processes;
mod queue;
mod refusals;
mod replicas;
mod retention;
mod rights;
mod sentinel;
mod short_forms;
mod steps;
mod tls;
mod unsafe_faults;
mod user_connection;
mod waiters;
