//! Where threads meet: locks, flags and signals.
//!
//! This crate's own unit tests put those of a model checker in their place. Nothing else does: neither a feature nor
//! another crate's tests.

#[cfg(test)]
#[path = "../../core/src/sync/model.rs"]
pub(crate) mod model;

#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

#[cfg(not(test))]
pub(crate) use tokio::sync::Notify;

#[cfg(test)]
pub(crate) use self::model::{Mutex, MutexGuard, Notify, atomic};
