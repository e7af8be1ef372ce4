//! The Postgres store: all integration tests in one program.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panics, and have tasks and time of their own"
)]

mod awaits;
mod bloom;
mod conformance;
mod connection;
mod crashes;
mod crowd;
mod deployed;
mod fence;
mod filters;
mod leases;
mod manual;
mod migrations;
mod planted;
mod proof;
mod retention;
mod rights;
mod room;
mod silence;
mod stopped;
mod support;
mod unsafe_faults;
