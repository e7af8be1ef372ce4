//! The memory store: all integration tests in one program.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panics, and have tasks and time of their own"
)]

mod blocking;
mod bloom;
mod cancel;
mod common;
mod conformance;
mod harness;
mod lease;
mod limiter;
mod listing;
mod many_names;
mod mutants;
mod mutex;
mod semaphore;
mod sequential;
mod store;
mod threads;
mod timers;
mod wait_group;
