//! Limiters of networked stores: many callers' calls in one request, the refusals that this process
//! remembers, and what decides while the store is away.

pub(in crate::engine) mod handle;
pub(in crate::engine) mod limiting;
mod local;
mod policy;
mod reservation;
mod waiting;
