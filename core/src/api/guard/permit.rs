//! The guard of a semaphore.

use super::{Guard, OfSemaphore};

/// One or more permits of a semaphore, held together.
pub type Permit = Guard<OfSemaphore>;

impl Permit {
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
}
