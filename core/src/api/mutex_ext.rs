//! Methods of every mutex that need no part of its store.

use std::future::Future;

use super::Mutex;
use crate::{Error, ErrorKind, FencingToken, Result};

/// Methods of every [`Mutex`] that take closures, which a trait object cannot have. Implemented for
/// all mutexes; not for users to implement.
pub trait MutexExt: Mutex {
    /// Locks, runs the future that `work` makes of the fencing token while the mutex is held, and
    /// unlocks.
    ///
    /// The future is dropped at the deadline or at the loss of the lock, whichever comes first
    /// ([M4]). Its result is returned only if the lock was held until it was done.
    ///
    /// # Errors
    /// As [`lock`](Mutex::lock) for the wait; `Lost` if the lock was lost before the future was
    /// done, also if only the release shows it. If the store does not answer the release, the
    /// result is returned: the release stays queued ([C12]).
    ///
    /// # Cancel safety
    /// A dropped call drops the future, leaves the queue and queues the release ([C4], [C12]).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use stanchion::MutexExt;
    ///
    /// let mutex = store.mutex("report", Default::default())?;
    /// let pages = mutex.run(|token| async move {
    ///     println!("writes with token {token}");
    ///     42
    /// });
    /// assert_eq!(pages.await?, 42);
    /// assert!(mutex.try_lock().await?.is_some(), "it is free again");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [M4]: crate::contract#m4
    /// [C4]: crate::contract#c4
    /// [C12]: crate::contract#c12
    fn run<F, W>(&self, work: F) -> impl Future<Output = Result<W::Output>>
    where
        F: FnOnce(FencingToken) -> W,
        W: Future,
    {
        async move {
            let guard = self.lock().await?;
            let done = guard.run(work(guard.fencing_token())).await?;
            // Its last step may have outlasted the lease.
            let was_held = guard.is_held();
            match guard.release().await {
                Err(error) if error.kind() == ErrorKind::Lost => Err(error),
                Err(error) if !was_held => {
                    let store = error.store().unwrap_or_default();
                    Err(Error::lost().context("run", store, self.name()))
                }
                // The lock was held while the work was done; the release is under way.
                _ => Ok(done),
            }
        }
    }
}

impl<M: Mutex + ?Sized> MutexExt for M {}
