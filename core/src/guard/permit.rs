//! The guard of a semaphore.

use super::{Hold, hold_methods};
use crate::Result;

/// One or more permits of a semaphore, held together.
///
/// # Drop
/// Never blocks and never panics: it queues the release (C12), so the permits are free a moment later, not at
/// once. Use [`release`](Self::release) to know. If the process dies first, the lease frees them.
#[derive(Debug)]
#[must_use = "dropping a permit gives it back"]
pub struct Permit {
    hold: Hold,
}

impl Permit {
    hold_methods!();

    /// How many permits these are.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.hold.weight()
    }

    /// Gives the permits back now and reports.
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
