//! The number of a store object.

use std::sync::atomic::{AtomicU64, Ordering};

/// Identifies a store object among all over one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionId(u64);

impl SessionId {
    /// No store object: the session of detached holds, which outlive every `close`.
    pub(crate) const NONE: Self = Self(0);

    /// Returns the number of a new store object.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
