#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
mod check;
mod config;
mod connect;
mod connector;
mod context;
mod error;
mod fence;
mod hints;
mod migrate;
mod opened;
mod pool;
mod schema;
mod session;
mod session_settings;
mod steps;
mod store;
mod strangers;
mod sweep;
mod transaction;
mod user_connection;
mod wake;
mod writable;

pub use address::TargetSessionAttrs;
pub use config::PostgresBuilder;
pub use connect::StepsOfStore;
pub use migrate::schema_sql;
pub use store::PostgresStore;
pub use transaction::{LockInOptions, TransactionLock};
pub use wake::PostgresWake;

pub use fence::PostgresFence;
/// The crate whose pools, options and transactions [`PostgresBuilder`] and [`PostgresStore`] take.
pub use sqlx;
pub use stanchion_core::Credentials;
