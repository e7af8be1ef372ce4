//! How long a call may wait, and what it does while the store is away.

use std::time::Duration;

use tokio::time::Instant;

use crate::clock::{now, sleep};
use crate::engine::timing::{LAST_PAUSE, LAST_WORD, jittered};
use crate::{Error, Result};

/// How long an acquisition may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitLimit {
    /// One attempt, no queueing.
    None,
    /// Until then.
    Until(Instant),
    /// For as long as it takes.
    Forever,
}

impl WaitLimit {
    /// At most this long; zero is one attempt, and what is longer than the clock reaches is for ever.
    pub(crate) fn at_most(limit: Duration) -> Self {
        if limit.is_zero() {
            return Self::None;
        }
        now().checked_add(limit).map_or(Self::Forever, Self::Until)
    }

    pub(crate) fn end(self) -> Option<Instant> {
        match self {
            Self::Until(end) => Some(end),
            Self::None | Self::Forever => None,
        }
    }

    /// When a request is over that could run until `limit`.
    pub(crate) fn request_end(self, limit: Instant) -> Instant {
        self.end().map_or(limit, |end| limit.min(end + LAST_WORD))
    }

    /// Waits a little while the store is away, or ends with its error.
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
        *pause = (*pause * 2).min(LAST_PAUSE);
        match self.end() {
            // At the end one more attempt would overrun: the error is the last word.
            Some(end) if now() + jittered >= end => {
                tokio::time::sleep_until(end).await;
                Err(error)
            }
            _ => {
                sleep(jittered).await;
                Ok(())
            }
        }
    }
}
