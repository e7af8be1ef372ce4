//! The configuration of a store: the URL and the builder.

mod builder;
mod host_lists;
mod parameters;
mod url;

pub(crate) use self::builder::Checked;
pub use self::builder::PostgresBuilder;
