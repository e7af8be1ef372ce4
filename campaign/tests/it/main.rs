//! The checkers of histories, and recovery: all integration tests in one program.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panics, and have tasks and time of their own"
)]

mod elections;
mod forks;
mod history;
mod program_ends;
mod recovery;
