//! The Redis store of the `stanchion` coordination library (Redis 6.2 and later, Valkey).
//!
//! Every step is one Lua script and one round trip; the server's clock decides. What waits is pushed: a release puts a
//! hint into the mailbox list of the next waiter's process, which one `BLPOP` of that process watches. Holds, queue and
//! tokens live in a hash and two sorted sets per name, spread over 16 hash tags, and disappear by themselves.
//!
//! # Servers
//! One server, the primary that sentinels announce, or a cluster, by their URLs ([`RedisBuilder::new`]); or whatever a
//! connection leads to that the user has ([`RedisBuilder::from_connection`]). TLS stands behind the feature `tls`, which is
//! on by default, because hosted servers rarely let anybody in without it. It is rustls, so that no C library of the system
//! is needed, with the authorities that Mozilla trusts compiled in: they are there in a bare container too, and nobody
//! reads files when a connection has to be made anew. A private authority is named by `ca`.
//!
//! # What is not guaranteed
//! A server without `appendonly yes` forgets everything when it restarts, one that evicts keys can free what is held
//! (connecting refuses that), and a failover to a replica can lose what the old primary had acknowledged. Fencing
//! tokens grow through all of these. [`RedisBuilder::replicas`] makes the last less likely.

mod access;
mod check;
mod cluster;
mod config;
mod error;
mod fence;
mod given;
mod keys;
mod link;
mod route;
mod script;
mod sentinel;
mod steps;
mod store;
mod unit;
mod wake;

pub use config::RedisBuilder;
pub use fence::RedisFence;
pub use steps::RedisSteps;
pub use store::{RedisStore, StepsOfStore};
pub use wake::RedisWake;
