//! The clauses of all four kinds that are not about holding.

mod names;
mod options;
mod store;

pub(crate) use names::*;
pub(crate) use options::*;
pub(crate) use store::*;
