#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
mod check;
mod cluster;
mod command;
mod config;
mod connection;
mod connector;
mod durability;
mod error;
mod fence;
mod keys;
mod opened;
mod pool;
mod route;
mod script;
mod sentinel;
mod steps;
mod store;
mod store_pools;
mod user_connection;
mod wake;

pub use config::RedisBuilder;
pub use fence::RedisFence;
pub use opened::StepsOfStore;
pub use store::RedisStore;
pub use wake::RedisWake;

/// The crate whose connections and clients [`RedisBuilder`] and [`RedisFence`] take.
pub use redis;
pub use stanchion_core::Credentials;
