//! The program itself, as users start it, on real servers.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panics, and are processes' parents"
)]

mod command;
mod common;
mod ending;
mod faults;
mod jobs;
mod ledger;
mod operator;
mod queue;
mod serve;
mod signals;
mod supervisor;
mod terminal;
mod texts;
