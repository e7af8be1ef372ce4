//! What a closure learns of the loss of its hold.

use std::time::Duration;

use super::waiting::wait;
use crate::guard::Hold;
use crate::{Result, clock};

/// Tells whether a hold is lost. A closure that [`Guard::run`](super::Guard::run) calls looks at it between its steps, or hands a
/// copy to a thread of `std::thread::scope` that waits for it.
#[derive(Clone, Copy, Debug)]
pub struct Lost<'a>(pub(super) &'a Hold);

impl Lost<'_> {
    /// Returns whether the hold is lost, without I/O: `true` exactly from its deadline on ([C10](crate::contract#c10)).
    #[must_use]
    pub fn is_lost(&self) -> bool {
        !self.0.is_held()
    }

    /// Waits until the hold is lost: until its deadline, or until the store reports it ([C9](crate::contract#c9)).
    ///
    /// # Errors
    /// `Unsupported` inside of a polled task.
    pub fn wait(&self) -> Result<()> {
        wait(async {
            self.0.lost().await;
            Ok(())
        })
    }

    /// Waits until the hold is lost, for `time` at most; `false` if it was not lost.
    ///
    /// # Errors
    /// `Unsupported` inside of a polled task.
    pub fn wait_for(&self, time: Duration) -> Result<bool> {
        wait(async { Ok(clock::timeout(time, self.0.lost()).await.is_ok()) })
    }
}
