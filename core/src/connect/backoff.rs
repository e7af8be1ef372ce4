//! How often a store connects to a server that fails every attempt ([C28]).
//!
//! [C28]: crate::contract#c28

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{Instant, real, sleep};
use crate::observe::metering::StoreMeter;
use crate::runtime::Broadcast;
use crate::{Error, Result};

/// Interval between two attempts of which the first failed; up to `JITTER` comes on top, so that
/// the processes that lost a server do not come back together.
const INTERVAL: Duration = Duration::from_millis(500);
const JITTER: Duration = Duration::from_millis(90);

/// The failed attempts of a store to connect, the last one at each server. All connections of the
/// store share this.
///
/// The first attempt after a success is made at once. After a failed one, the next begins 500 to
/// 590 ms after that one began ([C28]). A server is whatever text the backend chooses: an address,
/// or a name for several hosts that are tried together. An attempt that is dropped half way says
/// nothing about its server.
///
/// # Examples
/// ```
/// # use stanchion_core::connect::Backoff;
/// # use stanchion_core::{Error, ErrorKind};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let backoff = Backoff::new("any");
/// let refused = async { Err::<(), _>(Error::new(ErrorKind::Unavailable, "refused")) };
/// assert!(backoff.attempt_if_due("a:5432", refused).await.is_err());
/// // Another one at this moment is not made.
/// let error = backoff.attempt_if_due("a:5432", async { Ok(()) }).await.unwrap_err();
/// assert!(error.to_string().contains("refused"));
/// backoff.attempt("a:5432", async { Ok(()) }).await.unwrap();
/// assert!(backoff.last_error("a:5432").is_none());
/// # });
/// ```
///
/// [C28]: crate::contract#c28
pub struct Backoff {
    meter: StoreMeter,
    failures: Mutex<HashMap<String, Failure>>,
    /// Notified of each attempt that succeeds.
    connected: Broadcast,
}

struct Failure {
    error: Error,
    /// When the next attempt may begin.
    until: Instant,
}

impl Backoff {
    /// Makes the state of a store that has not connected yet; `store` is its name in the metrics.
    #[must_use]
    pub fn new(store: &'static str) -> Self {
        Self { meter: StoreMeter { store }, failures: Mutex::default(), connected: Broadcast::new() }
    }

    /// Connects to a server, after the time of a failed attempt is over. Those who wait for it go
    /// on at once when another attempt succeeds.
    ///
    /// # Errors
    /// That of the attempt.
    pub async fn attempt<T>(&self, server: &str, connect: impl Future<Output = Result<T>>) -> Result<T> {
        loop {
            let connected = self.connected.notified();
            let wait = match self.begin(server) {
                Ok(next) => return self.made(server, next, connect.await),
                Err(failure) => failure.until.saturating_duration_since(real()),
            };
            tokio::select! {
                () = connected => {}
                () = sleep(wait) => {}
            }
        }
    }

    /// Connects to a server, unless an attempt failed a moment ago: the caller comes again, within
    /// its own time limit.
    ///
    /// # Errors
    /// That of the attempt, or of the last one.
    pub async fn attempt_if_due<T>(
        &self,
        server: &str,
        connect: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let next = self.begin(server).map_err(|failure| failure.error)?;
        self.made(server, next, connect.await)
    }

    /// Returns the error of the last attempt, if it failed.
    pub fn last_error(&self, server: &str) -> Option<Error> {
        self.failures().get(server).map(|failure| failure.error.replicate())
    }

    /// Waits until an attempt may begin.
    pub async fn due(&self, server: &str) {
        let until = self.failures().get(server).map(|failure| failure.until);
        if let Some(until) = until {
            sleep(until.saturating_duration_since(real())).await;
        }
    }

    /// Begins an attempt. Returns when the next one may begin; whoever else waits leaves this one
    /// alone.
    ///
    /// # Errors
    /// The last failure, if it is too early.
    fn begin(&self, server: &str) -> std::result::Result<Instant, Failure> {
        let next = real() + INTERVAL + JITTER.mul_f64(rand::random());
        match self.failures().get_mut(server) {
            Some(failure) if real() < failure.until => {
                return Err(Failure { error: failure.error.replicate(), until: failure.until });
            }
            Some(failure) => failure.until = next,
            None => {}
        }
        Ok(next)
    }

    /// Notes how an attempt ended, after which the next may begin at that time.
    fn made<T>(&self, server: &str, until: Instant, made: Result<T>) -> Result<T> {
        self.meter.connected(made.is_ok());
        match &made {
            Err(error) => {
                let failure = Failure { error: error.replicate(), until };
                self.failures().insert(server.to_owned(), failure);
            }
            Ok(_) => {
                self.failures().remove(server);
                self.connected.notify_waiters();
            }
        }
        made
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

    use super::*;
    use crate::ErrorKind;

    /// Counts the attempts that are made.
    struct Attempts {
        backoff: Backoff,
        made: AtomicU32,
    }

    impl Default for Attempts {
        fn default() -> Self {
            Self { backoff: Backoff::new("any"), made: Default::default() }
        }
    }

    impl Attempts {
        fn connect(&self, works: bool) -> impl Future<Output = Result<()>> {
            let refused = || Error::new(ErrorKind::Unavailable, "refused");
            async move {
                self.made.fetch_add(1, Ordering::Relaxed);
                works.then_some(()).ok_or_else(refused)
            }
        }

        fn made(&self) -> u32 {
            self.made.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn c28_attempts_at_a_server_that_fails_are_apart() {
        let attempts = Attempts::default();
        let attempt = |works| attempts.backoff.attempt("a", attempts.connect(works));
        let start = real();
        for number in 1..=3 {
            attempt(false).await.unwrap_err();
            assert!(real() - start >= INTERVAL * (number - 1), "attempt {number}");
        }
        assert!(attempts.backoff.last_error("a").unwrap().to_string().contains("refused"));
        attempts.backoff.attempt("b", async { Ok(()) }).await.unwrap();
        // One of these waits for its time. The others go on as soon as it has connected.
        for connected in join_all((0..10).map(|_| attempt(true))).await {
            connected.unwrap();
        }
        let took = real() - start;
        assert!(took >= INTERVAL * 3 && attempts.backoff.last_error("a").is_none(), "{took:?}");
        assert_eq!(attempts.made(), 13);
    }

    #[tokio::test]
    async fn c28_whoever_does_not_wait_is_told_why_the_last_attempt_failed() {
        let attempts = Attempts::default();
        let attempt = |works| attempts.backoff.attempt_if_due("a", attempts.connect(works));
        for number in 1..=2 {
            for _ in 0..10 {
                assert!(attempt(false).await.unwrap_err().to_string().contains("refused"));
            }
            assert_eq!(attempts.made(), number);
            attempts.backoff.due("a").await;
        }
        for _ in 0..10 {
            attempt(true).await.unwrap();
        }
        assert_eq!(attempts.made(), 12);
    }

    #[tokio::test]
    async fn c28_an_attempt_that_is_given_up_says_nothing_about_the_server() {
        let backoff = Backoff::new("any");
        let never = backoff.attempt("a", std::future::pending::<Result<()>>());
        assert!(tokio::time::timeout(Duration::from_millis(10), never).await.is_err());
        assert!(backoff.last_error("a").is_none());
    }
}
