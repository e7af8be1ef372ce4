//! The Postgres store of the `stanchion` coordination library.

mod context;
mod error;
mod fence;
mod link;
mod schema;
mod steps;

pub use fence::PostgresFence;
