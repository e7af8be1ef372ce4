#![doc = include_str!("../README.md")]

mod access;
mod check;
mod client;
mod cluster;
mod config;
mod durability;
mod error;
mod fence;
mod keys;
mod link;
mod opened;
mod request;
mod route;
mod script;
mod sentinel;
mod steps;
mod store;
mod user_connection;
mod wake;

pub use config::RedisBuilder;
pub use fence::RedisFence;
pub use store::{RedisStore, StepsOfStore};
pub use wake::RedisWake;

/// The crate whose connections and clients [`RedisBuilder`] and [`RedisFence`] take.
pub use redis;
pub use stanchion_core::Credentials;
