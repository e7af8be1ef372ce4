//! How often a node is connected to that fails every attempt ([C28]).
//!
//! [C28]: stanchion_core::contract#c28

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stanchion_core::clock::{Instant, real, sleep};
use stanchion_core::{Error, Result};
use tokio::sync::Notify;

/// Interval between two attempts at a node of which the first failed; up to `JITTER` comes on top, so that the processes that
/// lost a server do not come back together.
const INTERVAL: Duration = Duration::from_millis(500);
const JITTER: Duration = Duration::from_millis(90);

/// The failed attempts of a store to connect, the last one at each node. All of its connections share this.
#[derive(Default)]
pub(crate) struct Backoff {
    failures: Mutex<HashMap<String, Failure>>,
    /// Notified of each attempt that succeeds.
    connected: Notify,
}

struct Failure {
    error: Error,
    /// When the next attempt may begin.
    until: Instant,
}

impl Backoff {
    /// Connects to a node. An attempt that follows a failed one waits for its time. One that is dropped half way says nothing
    /// about the node.
    ///
    /// # Errors
    /// That of the attempt.
    pub(crate) async fn attempt<T>(&self, node: &str, connect: impl Future<Output = Result<T>>) -> Result<T> {
        let until = self.begin(node).await;
        let made = connect.await;
        let mut failures = self.failures();
        match &made {
            Err(error) => {
                failures.insert(node.to_owned(), Failure { error: error.replicate(), until });
            }
            Ok(_) => {
                failures.remove(node);
                self.connected.notify_waiters();
            }
        }
        drop(failures);
        made
    }

    /// Returns the error of the last attempt, if it failed.
    pub(crate) fn last_error(&self, node: &str) -> Option<Error> {
        self.failures().get(node).map(|failure| failure.error.replicate())
    }

    /// Waits until an attempt may begin. Returns when the next one may.
    async fn begin(&self, node: &str) -> Instant {
        loop {
            let connected = self.connected.notified();
            let next = real() + INTERVAL + JITTER.mul_f64(rand::random());
            let wait = match self.failures().get_mut(node) {
                None => return next,
                Some(failure) if real() >= failure.until => {
                    // Whoever else waits leaves this attempt alone.
                    failure.until = next;
                    return next;
                }
                Some(failure) => failure.until.saturating_duration_since(real()),
            };
            tokio::select! {
                () = connected => {}
                () = sleep(wait) => {}
            }
        }
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<String, Failure>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backoff").field("failed", &self.failures().len()).finish()
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test owns its runtime")]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::join_all;
    use stanchion_core::ErrorKind;

    use super::*;

    fn failed(detail: &str) -> Error {
        Error::new(ErrorKind::Unavailable, detail.to_owned())
    }

    #[tokio::test]
    async fn c28_attempts_at_a_node_that_fails_are_apart() {
        let (backoff, made) = (Backoff::default(), AtomicU32::new(0));
        let attempt = |works: bool| {
            let made = &made;
            let connect = async move {
                made.fetch_add(1, Ordering::Relaxed);
                works.then_some(()).ok_or_else(|| failed("refused"))
            };
            backoff.attempt("a", connect)
        };
        let start = real();
        for number in 1..=3 {
            attempt(false).await.unwrap_err();
            assert!(real() - start >= INTERVAL * (number - 1), "attempt {number}");
        }
        assert!(backoff.last_error("a").unwrap().to_string().contains("refused"));
        backoff.attempt("b", async { Ok(()) }).await.unwrap();
        // One of these waits for its time. The others go on as soon as it has connected.
        for connected in join_all((0..10).map(|_| attempt(true))).await {
            connected.unwrap();
        }
        let took = real() - start;
        assert!(took >= INTERVAL * 3 && backoff.last_error("a").is_none(), "{took:?}");
        assert_eq!(made.into_inner(), 13);
    }

    #[tokio::test]
    async fn c28_an_attempt_that_is_given_up_says_nothing_about_the_node() {
        let backoff = Backoff::default();
        let never = backoff.attempt("a", std::future::pending::<Result<()>>());
        assert!(tokio::time::timeout(Duration::from_millis(10), never).await.is_err());
        assert!(backoff.last_error("a").is_none());
    }
}
