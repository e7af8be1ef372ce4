//! Shows a closure the loss of its hold.

use std::time::Duration;

use super::waiting::wait;
use crate::api::guard::Hold;
use crate::{Error, Result, clock};

/// Shows whether a hold is lost. A closure that [`Guard::run`](super::Guard::run) calls looks at it
/// between its steps, or hands a copy to a thread that watches it.
///
/// # Examples
/// A watching thread looks again and again, since an ordinary end of the work is no loss:
///
/// ```
/// # fn main() -> stanchion::Result<()> {
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use std::thread;
/// use std::time::Duration;
///
/// # let store = stanchion::blocking::connect("memory:")?;
/// let mutex = store.mutex("report", Default::default())?;
/// mutex.run(|_token, lost| {
///     let is_done = AtomicBool::new(false);
///     thread::scope(|scope| {
///         scope.spawn(|| {
///             while !is_done.load(Ordering::Relaxed) {
///                 if lost.wait_for(Duration::from_millis(20)).unwrap_or(true) {
///                     return println!("stop the work: close its connection, kill its child process");
///                 }
///             }
///         });
///         // The work.
///         is_done.store(true, Ordering::Relaxed);
///     });
/// })
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lost<'a>(pub(super) &'a Hold);

impl Lost<'_> {
    /// Returns whether the hold is lost, without I/O: `true` exactly from its deadline on
    /// ([C10](crate::contract#c10)).
    #[must_use]
    pub fn is_lost(&self) -> bool {
        !self.0.is_held()
    }

    /// Waits until the hold is lost: until its deadline, or until the store reports it
    /// ([C9](crate::contract#c9)). While renewals succeed that is never: a thread that the holder
    /// joins uses [`wait_for`](Self::wait_for).
    ///
    /// # Errors
    /// `Unsupported` inside of a polled task.
    pub fn wait(&self) -> Result<()> {
        wait(async {
            self.0.lost().await;
            Ok(())
        })
        .map_err(|error| self.in_operation(error))
    }

    /// Waits until the hold is lost, for `time` at most; `false` if it was not lost.
    ///
    /// # Errors
    /// `Unsupported` inside of a polled task.
    pub fn wait_for(&self, time: Duration) -> Result<bool> {
        wait(async { Ok(clock::timeout(time, self.0.lost()).await.is_ok()) })
            .map_err(|error| self.in_operation(error))
    }

    fn in_operation(&self, error: Error) -> Error {
        self.0.context("lost", error)
    }
}
