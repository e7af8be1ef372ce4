//! The memory store: all integration tests in one program.

mod bloom;
mod cancel;
mod common;
mod conformance;
mod harness;
mod lease;
mod limiter;
mod mutex;
mod planted;
mod semaphore;
mod sequential;
mod store;
mod threads;
mod wait_group;
