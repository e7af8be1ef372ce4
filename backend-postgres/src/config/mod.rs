//! What a store is made from: the URL and the builder.

mod builder;
mod parameters;
mod url;

pub(crate) use self::builder::Checked;
pub use self::builder::PostgresBuilder;
