//! The guard of a wait group.

use super::{Guard, OfWaitGroup};
use crate::Result;

/// A member of a wait group: work under way. Call [`done`](Self::done) when the work is done: a
/// member that is dropped counts as *abandoned*, which `wait` reports apart from the finished ones
/// ([W4]).
///
/// [W4]: crate::contract#w4
pub type Member = Guard<OfWaitGroup>;

impl Member {
    /// Reports the work as finished.
    ///
    /// The same as [`release`](Self::release), by the name that wait groups use.
    ///
    /// # Errors
    /// `Lost` if the member was gone already: expired, or done by its ticket ([W2]). `Unavailable`
    /// or `Unknown` if the store did not answer in time, or if the outcome is unknown; then the
    /// member is being abandoned.
    ///
    /// # Cancel safety
    /// A dropped call may have finished the member; otherwise the member is abandoned, as by
    /// [`Drop`].
    ///
    /// [W2]: crate::contract#w2
    pub async fn done(self) -> Result<()> {
        self.release().await
    }
}
