//! The guard of a semaphore.

use super::{Guard, OfSemaphore};

/// One or more permits of a semaphore, held together.
pub type Permit = Guard<OfSemaphore>;

impl Permit {
    /// Returns the number of permits.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.hold.weight()
    }
}
