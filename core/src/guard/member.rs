//! The guard of a wait group.

use super::{Hold, hold_methods};
use crate::Result;

/// A member of a wait group: work under way.
///
/// # Drop
/// Never panics. It queues that this member was *abandoned*, which `wait` reports apart from the finished ones ([W4]). Call
/// [`done`](Self::done) when the work is done. It does not block while anything else of its store is alive; the last drop
/// waits until what is queued is sent, for the store's `drain` time at most ([C12]).
///
/// [C12]: crate::contract#c12
/// [W4]: crate::contract#w4
#[derive(Debug)]
#[must_use = "dropping a member counts as abandoned, not as done"]
pub struct Member {
    hold: Hold,
}

impl Member {
    hold_methods!("store.wait_group(\"batch 7\", Default::default())?.add().await?");

    /// Reports the work as finished.
    ///
    /// If a reply is lost and the retry finds the member gone before its [`deadline`](Self::deadline), `done` returns `Ok`,
    /// because its first request probably ended the member. Limitation: it also returns `Ok` if another process ended the
    /// member by its ticket between the two requests.
    ///
    /// # Errors
    /// `Lost` if the member was gone already: expired, or done by its ticket ([W2]). `Unavailable` or `Unknown` if
    /// the store did not answer in time, or if the outcome is unknown; then the member is being
    /// abandoned.
    ///
    /// # Cancel safety
    /// A dropped call may have finished the member; otherwise the member is abandoned, as by [`Drop`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// let batch = store.wait_group("batch 7", Default::default())?;
    /// let member = batch.add().await?;
    /// member.done().await?;
    /// assert_eq!(batch.wait().await?.finished, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [W2]: crate::contract#w2
    pub async fn done(self) -> Result<()> {
        self.hold.release().await
    }
}
