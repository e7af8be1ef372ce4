//! The state that all parts of one store object share.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::spi::{Acquire, HintBox, ProcessId};

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
    pub(crate) turn: TurnLabel,
}

/// The label of the turns of users' transactions. It is this value, not its text, that tells them from other holds.
#[derive(Clone, Debug)]
pub(crate) struct TurnLabel(pub(crate) Arc<str>);

impl Default for TurnLabel {
    fn default() -> Self {
        Self(Arc::from("lock_in"))
    }
}

impl TurnLabel {
    pub(crate) fn is_of(&self, acquire: &Acquire) -> bool {
        acquire.label.as_ref().is_some_and(|label| Arc::ptr_eq(label, &self.0))
    }
}

/// Returns the duration in microseconds, the unit of the SQL functions.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(stanchion_core::clock::micros(duration)).unwrap_or(i64::MAX)
}
