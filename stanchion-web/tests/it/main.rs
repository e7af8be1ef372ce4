//! The router, with requests as browsers and programs make them.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panics, and have tasks of their own"
)]

mod access;
mod answers;
mod common;
mod events;
mod faulty;
mod outage;
mod search;
