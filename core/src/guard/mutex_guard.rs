//! The guard of a mutex.

use super::{Hold, hold_methods};
use crate::Result;

/// A locked mutex. Made by [`Mutex::lock`](crate::Mutex::lock) and its kin.
///
/// # Drop
/// Never blocks and never panics: it queues the release (C12), so the mutex is free a moment later, not at once.
/// Use [`release`](Self::release) to know. If the process dies first, the lease frees it.
#[derive(Debug)]
#[must_use = "dropping the guard unlocks the mutex"]
pub struct MutexGuard {
    hold: Hold,
}

impl MutexGuard {
    hold_methods!();

    /// Another guard of the same hold (M5); the last one dropped or released frees the mutex.
    pub fn reenter(&self) -> Self {
        Self { hold: self.hold.share() }
    }

    /// Unlocks now and reports. Of several guards of one hold, only the last one asks the store.
    ///
    /// If a reply is lost and the hold is gone when the store is asked again, before the
    /// [`deadline`](Self::deadline), it was this release. What is *not* guaranteed: that another process which freed the
    /// hold by force, so shortly before that its holder had not been told, is told apart from that.
    ///
    /// # Errors
    /// `Lost` if the hold was gone already; nobody else is freed by that (C11). `Unavailable` or `Unknown` if the
    /// store did not answer in time, or if it cannot be known whether the hold lasted until now; then the release stays
    /// queued.
    ///
    /// # Cancel safety
    /// A dropped call leaves the release to the queue, as [`Drop`].
    pub async fn release(self) -> Result<()> {
        self.hold.release().await
    }
}
