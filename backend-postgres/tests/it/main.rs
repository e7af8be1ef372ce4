//! The Postgres store: all integration tests in one program.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panics, and have tasks and time of their own"
)]

mod bloom;
mod common;
mod conformance;
mod connecting;
mod connection;
mod crashes;
mod credentials;
mod crowd;
mod fence;
mod filters;
mod hosts;
mod leases;
mod listing;
mod lost_commands;
mod manual;
mod migrations;
mod mutants;
mod namespaces;
mod neighbours;
mod retention;
mod rights;
mod room;
mod silence;
mod stopped;
mod transactions;
mod unsafe_faults;
mod user_pool;
