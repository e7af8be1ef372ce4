//! Detects the end of a runtime.

use std::fmt;
use std::future::pending;
use std::sync::{Arc, Weak};

use tokio::task::AbortHandle;

/// An idle task that ends with its runtime, or when this is dropped: it shows whether a runtime
/// still drives what was made on it.
pub struct RuntimeMark {
    there: Weak<()>,
    task: AbortHandle,
}

impl RuntimeMark {
    /// Marks the current runtime.
    ///
    /// # Panics
    /// Outside a runtime.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the task has to end with the caller's runtime")]
    pub fn leave() -> Self {
        let mark = Arc::new(());
        let there = Arc::downgrade(&mark);
        let task = tokio::spawn(async move {
            let _mark = mark;
            pending::<()>().await;
        });
        Self { there, task: task.abort_handle() }
    }

    /// Whether the runtime has not ended.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.there.strong_count() > 0
    }
}

impl fmt::Debug for RuntimeMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeMark").field("is_there", &self.is_there()).finish_non_exhaustive()
    }
}

impl Drop for RuntimeMark {
    fn drop(&mut self) {
        self.task.abort();
    }
}
