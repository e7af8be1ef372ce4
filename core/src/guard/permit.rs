//! The guard of a semaphore.

use super::{Hold, hold_methods};
use crate::Result;

/// One or more permits of a semaphore, held together.
///
/// # Drop
/// Never panics. It queues the release ([C12]), so the permits are free a moment later, not at once; call
/// [`release`](Self::release) to wait for that. It does not block while anything else of its store is alive; the last
/// drop waits until what is queued is sent, for the store's `drain` time at most. If the process dies first, the end of
/// the lease frees them.
///
/// [C12]: crate::contract#c12
#[derive(Debug)]
#[must_use = "dropping a permit gives it back"]
pub struct Permit {
    hold: Hold,
}

impl Permit {
    hold_methods!("store.semaphore(\"exports\", stanchion::SemaphoreOptions::new(3))?.acquire().await?");

    /// Returns the number of permits.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// let exports = store.semaphore("exports", stanchion::SemaphoreOptions::new(3))?;
    /// assert_eq!(exports.acquire_many(2).await?.weight(), 2);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.hold.weight()
    }

    /// Releases the permits now, and returns whether that succeeded.
    ///
    /// If a reply is lost and the retry finds the hold gone before the [`deadline`](Self::deadline), this call has released it.
    /// Limitation: if another process force-released the hold just before this call, `release` may still return `Ok`.
    ///
    /// # Errors
    /// `Lost` if the hold was gone already; no other hold is released by that ([C11]). `Unavailable` or `Unknown` if
    /// the store did not answer in time, or if the outcome is unknown; then the release stays queued.
    ///
    /// # Cancel safety
    /// A dropped call queues the release, as [`Drop`] does.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// let exports = store.semaphore("exports", stanchion::SemaphoreOptions::new(3))?;
    /// exports.acquire_many(2).await?.release().await?;
    /// assert_eq!(exports.available().await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [C11]: crate::contract#c11
    pub async fn release(self) -> Result<()> {
        self.hold.release().await
    }
}
