//! The servers and the fault tools: all integration tests in one program.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panics, and have tasks and time of their own"
)]

mod faults_logins;
mod faults_postgres;
mod faults_redis;
mod faults_servers;
mod servers;
mod wire;
