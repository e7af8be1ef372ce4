//! How long a call may wait, and how it goes on while the store is away: attempt after attempt,
//! with growing pauses.

use std::time::Duration;

use tokio::time::Instant;

use crate::clock::{sleep, sleep_until};
use crate::engine::timing::{ANSWER_GRACE, FIRST_PAUSE, MAXIMUM_PAUSE, engine_now as now};
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
}

/// The pauses between the attempts of one call: each is twice as long as the one before, up to a
/// maximum, and the last half of each is random, so that calls that failed together are not
/// repeated together.
#[derive(Debug)]
pub(crate) struct Pauses(Duration);

impl Pauses {
    pub(crate) fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    /// Returns the pause before the next attempt.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.0.mul_f64(rand::random_range(0.5..=1.0));
        self.0 = (self.0 * 2).min(MAXIMUM_PAUSE);
        pause
    }
}

/// The attempts of one call: as many as its time limit has room for.
#[derive(Debug)]
pub(crate) struct Attempts {
    limit: WaitLimit,
    pauses: Pauses,
}

impl Attempts {
    pub(crate) fn within(limit: WaitLimit) -> Self {
        Self { limit, pauses: Pauses::new() }
    }

    /// Notes that the store has answered: the pauses begin small again.
    pub(crate) fn answered(&mut self) {
        self.pauses = Pauses::new();
    }

    /// Pauses before the next attempt.
    ///
    /// # Errors
    /// `error` itself, if no further attempt can help: it is final, or the time is over.
    pub(crate) async fn ride_out(&mut self, error: Error) -> Result<()> {
        let is_over = match self.limit {
            WaitLimit::None => true,
            WaitLimit::Until(end) => now() >= end,
            WaitLimit::Forever => false,
        };
        if is_over || error.kind().is_final() {
            return Err(error);
        }
        let pause = self.pauses.next();
        match self.limit.end() {
            // One more attempt would end after the limit, so this error is the result.
            Some(end) if now() + pause >= end => {
                sleep_until(end).await;
                Err(error)
            }
            _ => {
                sleep(pause).await;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests own their runtimes")]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn away() -> Error {
        Error::new(ErrorKind::Unavailable, "away")
    }

    #[test]
    fn pauses_double_up_to_the_maximum_and_half_of_each_is_random() {
        let mut pauses = Pauses::new();
        for whole in [20, 40, 80, 160, 320, 400, 400].map(Duration::from_millis) {
            let pause = pauses.next();
            assert!((whole / 2..=whole).contains(&pause), "{pause:?} of {whole:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn c17_attempts_end_with_the_time_limit_and_with_a_final_error() {
        let began = now();
        let limit = Duration::from_secs(1);
        let mut attempts = Attempts::within(WaitLimit::at_most(limit));
        let mut count = 0;
        while attempts.ride_out(away()).await.is_ok() {
            count += 1;
        }
        assert!((5..20).contains(&count), "{count}");
        assert!(began.elapsed() >= limit && began.elapsed() < limit * 2, "{:?}", began.elapsed());
        assert!(Attempts::within(WaitLimit::None).ride_out(away()).await.is_err(), "one attempt");
        let mut endless = Attempts::within(WaitLimit::Forever);
        for _ in 0..100 {
            endless.ride_out(away()).await.unwrap();
        }
        assert!(endless.ride_out(Error::closed()).await.is_err(), "it is final");
        endless.answered();
        let before = now();
        endless.ride_out(away()).await.unwrap();
        assert!(before.elapsed() <= FIRST_PAUSE + Duration::from_millis(1), "{:?}", before.elapsed());
    }
}
