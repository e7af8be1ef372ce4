//! What everything of one store object shares.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::steps::ProcessId;

use crate::schema::Schema;

/// How long the state of an idle name stays (C25).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    /// For fencing tokens.
    pub(crate) tokens: Duration,
    /// For the rest.
    pub(crate) state: Duration,
}

/// What everything of one store object shares, whichever connection it uses.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) schema: Schema,
    pub(crate) namespace: Arc<str>,
    pub(crate) process: ProcessId,
    pub(crate) retention: Retention,
}

/// Microseconds, as the functions take them.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
