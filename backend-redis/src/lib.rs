#![doc = include_str!("../README.md")]

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
