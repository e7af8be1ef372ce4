//! The settings of a store: its URL and its builder.

mod builder;
mod connectors;
mod tls;
mod url;

pub use self::builder::RedisBuilder;
pub(crate) use self::connectors::Connectors;
