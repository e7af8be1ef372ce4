//! The Postgres store of the `stanchion` coordination library: not written yet.
//!
//! The crate is empty. It holds the place of the store in the workspace, and nothing in it pretends to work: the facade
//! answers a `postgres://` URL with `Unsupported`, and `cargo xtask coverage` lists every clause as a gap of Postgres.
