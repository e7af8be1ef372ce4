//! The Postgres store of the `stanchion` coordination library.

mod context;
mod error;
mod link;
mod schema;
mod session;
mod steps;
