//! The guard of a mutex.

use super::{Hold, hold_methods};
use crate::Result;

/// The guard of a locked mutex, returned by [`Mutex::lock`](crate::Mutex::lock) and the other ways to lock.
///
/// # Drop
/// Never panics. It queues the release ([C12]), so the mutex is free a moment later, not at once; call
/// [`release`](Self::release) to wait for that. It does not block while anything else of its store is alive; the last
/// drop waits until what is queued is sent, for the store's `drain` time at most. If the process dies first, the end of
/// the lease frees the mutex.
///
/// [C12]: crate::contract#c12
#[derive(Debug)]
#[must_use = "dropping the guard unlocks the mutex"]
pub struct MutexGuard {
    hold: Hold,
}

impl MutexGuard {
    hold_methods!("store.mutex(\"report\", Default::default())?.lock().await?");

    /// Returns another guard of the same hold ([M5]). The last guard that is dropped or released frees the mutex.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// let mutex = store.mutex("report", Default::default())?;
    /// let guard = mutex.lock().await?;
    /// let inner = guard.reenter();
    /// guard.release().await?;
    /// assert!(inner.is_held());
    /// # inner.release().await
    /// # }
    /// ```
    ///
    /// [M5]: crate::contract#m5
    pub fn reenter(&self) -> Self {
        Self { hold: self.hold.share() }
    }

    /// Unlocks now, and returns whether that succeeded. Of several guards of one hold, only the last one sends a request.
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
    /// let mutex = store.mutex("report", Default::default())?;
    /// mutex.lock().await?.release().await?;
    /// assert!(mutex.try_lock().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [C11]: crate::contract#c11
    pub async fn release(self) -> Result<()> {
        self.hold.release().await
    }
}
