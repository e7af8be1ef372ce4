//! The settings of a store: its URL and its builder.

mod builder;
mod deployment;
mod tls;
mod url;

pub use self::builder::RedisBuilder;
pub(crate) use self::deployment::{Connections, Deployment, Routes};
