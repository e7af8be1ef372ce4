//! Where threads meet: locks, flags, signals and tasks.
//!
//! This crate's own unit tests put those of a model checker in their place, see `model.rs`. Nothing
//! else does: neither a feature nor another crate's tests.

#[cfg(test)]
pub(crate) mod model;
#[cfg(test)]
mod tasks;

#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

#[cfg(not(test))]
pub(crate) use tokio::{sync::Notify, task::JoinSet};

#[cfg(not(test))]
pub(crate) use crate::runtime::Broadcast;

#[cfg(test)]
pub(crate) use self::{
    model::{Mutex, MutexGuard, Notify, Notify as Broadcast, atomic},
    tasks::{JoinSet, caught, spawn},
};

/// Returns what some work returns; `None` if it panics, after which it is not polled again.
#[cfg(not(test))]
pub(crate) fn caught<T>(work: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
    use futures_util::FutureExt;

    std::panic::AssertUnwindSafe(work).catch_unwind().map(Result::ok)
}

/// Runs a task beside the one that calls, on the engine's runtime.
#[cfg(not(test))]
#[expect(clippy::disallowed_methods, reason = "a task of the engine's own runtime")]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}
