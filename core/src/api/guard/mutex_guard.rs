//! The guard of a mutex.

use super::{Guard, OfMutex};

/// The guard of a locked mutex, returned by [`Mutex::lock`](crate::Mutex::lock) and the other ways
/// to lock.
pub type MutexGuard = Guard<OfMutex>;

impl MutexGuard {
    /// Returns another guard of the same hold ([M5]). The last guard that is dropped or released
    /// frees the mutex.
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
        Self::new(self.hold.share())
    }
}
