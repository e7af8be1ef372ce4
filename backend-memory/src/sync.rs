//! The locks, flags and signals through which threads meet.
//!
//! This crate's unit tests replace them with a model checker's. Nothing else does: neither a
//! feature nor the tests of another crate.

#[cfg(test)]
#[path = "../../core/src/sync/model.rs"]
pub(crate) mod model;

#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

#[cfg(not(test))]
pub(crate) use stanchion_core::runtime::Broadcast;

#[cfg(test)]
pub(crate) use self::model::{Mutex, MutexGuard, Notify as Broadcast, atomic};
