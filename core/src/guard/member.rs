//! The guard of a wait group.

use super::{Hold, hold_methods};
use crate::Result;

/// Membership of a wait group: work under way.
///
/// # Drop
/// Never blocks and never panics: it queues that this member was *abandoned*, which `wait` reports beside the
/// finished ones (W4). Call [`done`](Self::done) when the work is done.
#[derive(Debug)]
#[must_use = "dropping a member counts as abandoned, not as done"]
pub struct Member {
    hold: Hold,
}

impl Member {
    hold_methods!();

    /// Reports the work as finished.
    ///
    /// If a reply is lost and the member is gone when the store is asked again, before the
    /// [`deadline`](Self::deadline), it was this call. What is *not* guaranteed: that another process which ended the
    /// member by its ticket in that moment is told apart from that.
    ///
    /// # Errors
    /// `Lost` if the member was gone already: expired, or done by its ticket (W2). `Unavailable` or `Unknown` if
    /// the store did not answer in time, or if it cannot be known whether the member lasted until now; then the member
    /// is being abandoned.
    ///
    /// # Cancel safety
    /// A dropped call may have finished the member; if it had not, the member is abandoned, as by [`Drop`].
    pub async fn done(self) -> Result<()> {
        self.hold.release().await
    }
}
