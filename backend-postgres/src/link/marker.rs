//! Whether a runtime is still there.

use std::future::pending;
use std::sync::{Arc, Weak};

use tokio::task::AbortHandle;

/// A task of a runtime that does nothing, and ends with it. Dropped, it ends at once.
pub(super) struct Marker {
    there: Weak<()>,
    task: AbortHandle,
}

impl Marker {
    /// Marks the runtime that this is called on.
    #[expect(clippy::disallowed_methods, reason = "it is to end with the caller's runtime")]
    pub(super) fn leave() -> Self {
        let mark = Arc::new(());
        let there = Arc::downgrade(&mark);
        let task = tokio::spawn(async move {
            let _mark = mark;
            pending::<()>().await;
        });
        Self { there, task: task.abort_handle() }
    }

    /// Whether the runtime has not ended.
    pub(super) fn is_there(&self) -> bool {
        self.there.strong_count() > 0
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        self.task.abort();
    }
}
