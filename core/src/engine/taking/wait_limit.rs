//! How long a call may wait, and what it does while the store is away.

use std::time::Duration;

use tokio::time::Instant;

use crate::clock::{sleep, sleep_until};
use crate::engine::timing::{ANSWER_GRACE, MAXIMUM_PAUSE, engine_now as now};
use crate::{Error, Result};

/// How long a call may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitLimit {
    /// One attempt, no queueing.
    None,
    /// Until that moment.
    Until(Instant),
    /// Without a limit.
    Forever,
}

impl WaitLimit {
    /// At most `timeout`. Zero is one attempt; a time beyond the clock's range is no limit.
    pub(crate) fn at_most(timeout: Duration) -> Self {
        if timeout.is_zero() {
            return Self::None;
        }
        now().checked_add(timeout).map_or(Self::Forever, Self::Until)
    }

    pub(crate) fn end(self) -> Option<Instant> {
        match self {
            Self::Until(end) => Some(end),
            Self::None | Self::Forever => None,
        }
    }

    /// When a request ends that could otherwise run until `latest`.
    pub(crate) fn request_end(self, latest: Instant) -> Instant {
        self.end().map_or(latest, |end| latest.min(end + ANSWER_GRACE))
    }

    /// Pauses before the next attempt while the store is away, or returns its error when the time is over.
    ///
    /// # Errors
    /// `error` itself, if it is final or the time is over.
    pub(crate) async fn ride_out(self, error: Error, pause: &mut Duration) -> Result<()> {
        let over = match self {
            Self::None => true,
            Self::Until(end) => now() >= end,
            Self::Forever => false,
        };
        if over || error.kind().is_final() {
            return Err(error);
        }
        let jittered = pause.mul_f64(rand::random_range(0.5..=1.0));
        *pause = (*pause * 2).min(MAXIMUM_PAUSE);
        match self.end() {
            // One more attempt would end after the limit, so this error is the result.
            Some(end) if now() + jittered >= end => {
                sleep_until(end).await;
                Err(error)
            }
            _ => {
                sleep(jittered).await;
                Ok(())
            }
        }
    }
}
