//! How often a store connects again while every attempt fails ([C28]).
//!
//! [C28]: stanchion_core::contract#c28

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stanchion_core::clock::{Instant, real, sleep};
use stanchion_core::{Error, Result};

use crate::access::PROTOCOL;

/// Interval between two attempts of which the first failed; up to `JITTER` comes on top, so that the processes that lost a
/// server do not come back together. An attempt tries each host once.
const INTERVAL: Duration = Duration::from_millis(500);
const JITTER: Duration = Duration::from_millis(90);

/// The last attempt of a store to connect, if it failed. All links of the store share this.
#[derive(Default)]
pub(crate) struct Backoff {
    failure: Mutex<Option<Failure>>,
}

struct Failure {
    error: Error,
    /// When the next attempt may begin.
    until: Instant,
}

impl Backoff {
    /// Connects, unless an attempt failed a moment ago: the caller comes again, within its own time limit. An attempt that
    /// is dropped counts as none.
    ///
    /// # Errors
    /// That of the attempt, or of the last one.
    pub(crate) async fn attempt<T>(
        &self,
        connect: impl Future<Output = Result<Option<T>>>,
    ) -> Result<Option<T>> {
        let until = self.begin()?;
        let made = connect.await;
        let error = match &made {
            Ok(Some(_)) => None,
            Ok(None) => Some(Error::unanswered(PROTOCOL)),
            Err(error) => Some(error.replicate()),
        };
        *self.failure() = error.map(|error| Failure { error, until });
        made
    }

    /// Returns the error of the last attempt, if it failed.
    pub(crate) fn last_error(&self) -> Option<Error> {
        self.failure().as_ref().map(|failure| failure.error.replicate())
    }

    /// Waits until an attempt may begin.
    pub(crate) async fn due(&self) {
        let until = self.failure().as_ref().map(|failure| failure.until);
        if let Some(until) = until {
            sleep(until.saturating_duration_since(real())).await;
        }
    }

    /// Begins an attempt. Returns when the next one may begin.
    fn begin(&self) -> Result<Instant> {
        let next = real() + INTERVAL + JITTER.mul_f64(rand::random());
        match &mut *self.failure() {
            Some(failure) if real() < failure.until => return Err(failure.error.replicate()),
            // Other callers leave this attempt alone.
            Some(failure) => failure.until = next,
            None => {}
        }
        Ok(next)
    }

    fn failure(&self) -> MutexGuard<'_, Option<Failure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backoff").field("failed", &self.failure().is_some()).finish()
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test owns its runtime")]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use stanchion_core::ErrorKind;

    use super::*;

    #[tokio::test]
    async fn c28_attempts_that_fail_are_apart() {
        let (backoff, made) = (Backoff::default(), AtomicU32::new(0));
        let attempt = |made_one: Option<Option<()>>| {
            let made = &made;
            backoff.attempt(async move {
                made.fetch_add(1, Ordering::Relaxed);
                made_one.ok_or_else(|| Error::new(ErrorKind::Unavailable, "refused"))
            })
        };
        for number in 1..=2 {
            for _ in 0..10 {
                assert!(attempt(None).await.unwrap_err().to_string().contains("refused"));
            }
            assert_eq!(made.load(Ordering::Relaxed), number);
            assert!(backoff.last_error().unwrap().to_string().contains("refused"));
            backoff.due().await;
        }
        for _ in 0..10 {
            assert!(attempt(Some(Some(()))).await.unwrap().is_some());
        }
        assert_eq!(made.load(Ordering::Relaxed), 12);
        assert!(attempt(Some(None)).await.unwrap().is_none());
        assert!(attempt(Some(Some(()))).await.unwrap_err().to_string().contains("no answer"));
    }

    #[tokio::test]
    async fn c28_an_attempt_that_is_given_up_counts_as_none() {
        let backoff = Backoff::default();
        let never = backoff.attempt(std::future::pending::<Result<Option<()>>>());
        assert!(tokio::time::timeout(Duration::from_millis(10), never).await.is_err());
        assert!(backoff.last_error().is_none());
    }
}
