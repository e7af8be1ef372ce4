//! The pool: all integration tests in one program.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panics, and have tasks and time of their own"
)]

mod cluster;
mod common;
mod ending;
mod groups;
mod inside_jobs;
mod model;
mod pool;
mod submitters;
mod weak_handles;
