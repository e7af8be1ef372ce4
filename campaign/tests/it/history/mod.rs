//! The checkers of histories: correct histories are accepted, and each planted breach of a rule is
//! found and named.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bystander;
mod files;
mod generated;
mod large;
mod limiter;
mod liveness;
mod model;
mod mutex;
mod scribe;
mod semaphore;
mod wait_group;
