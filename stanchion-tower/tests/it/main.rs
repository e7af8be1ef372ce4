//! The layers in real servers, with real clients.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panics, and have tasks and time of their own"
)]

mod common;
mod concurrency;
mod fields;
mod grpc;
mod outage;
mod quotas;
mod rate;
