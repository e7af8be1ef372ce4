//! Detects the end of a runtime.

use std::future::pending;
use std::sync::{Arc, Weak};

use tokio::task::AbortHandle;

/// An idle task that ends with its runtime, or when the marker is dropped.
pub(super) struct Marker {
    there: Weak<()>,
    task: AbortHandle,
}

impl Marker {
    /// Marks the current runtime.
    #[expect(clippy::disallowed_methods, reason = "the task has to end with the caller's runtime")]
    pub(super) fn leave() -> Self {
        let mark = Arc::new(());
        let there = Arc::downgrade(&mark);
        let task = tokio::spawn(async move {
            let _mark = mark;
            pending::<()>().await;
        });
        Self { there, task: task.abort_handle() }
    }

    /// Returns whether the runtime has not ended.
    pub(super) fn is_there(&self) -> bool {
        self.there.strong_count() > 0
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        self.task.abort();
    }
}
