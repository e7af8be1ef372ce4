//! The state that all parts of one store object share.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::spi::{HintBox, ProcessId};

use crate::schema::Schema;

/// Retention times of the state of idle names (C25).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    /// Retention of fencing tokens.
    pub(crate) tokens: Duration,
    /// Retention of all other state.
    pub(crate) state: Duration,
}

/// The state that all parts of one store object share, on every connection.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) schema: Schema,
    pub(crate) namespace: Arc<str>,
    pub(crate) process: ProcessId,
    pub(crate) retention: Retention,
    pub(crate) hints: Arc<HintBox>,
}

/// Returns the duration in microseconds, the unit of the SQL functions.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(stanchion_core::clock::micros(duration)).unwrap_or(i64::MAX)
}
