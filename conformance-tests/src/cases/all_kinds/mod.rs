//! The clauses of all kinds that are not about holds.

mod names;
mod options;
mod runtimes;
mod store;
mod wakers;

pub(crate) use names::*;
pub(crate) use options::*;
pub(crate) use runtimes::*;
pub(crate) use store::*;
pub(crate) use wakers::*;
