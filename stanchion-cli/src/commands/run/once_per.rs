//! A command that runs once in a period, over all machines.

use std::sync::Arc;
use std::time::Duration;

use stanchion::spi::clock::Instant;
use stanchion::{Limiter, LimiterOptions, OnMismatch, Quota, Result, Store};

/// Tokens of the bucket that come in a second: one for each microsecond.
const RATE: u64 = 1_000_000;

/// The bucket that is full when the next run is due, by the store's clock: the one by which
/// `StoreExt::every` keeps its jobs, so that a program and a crontab can share one.
///
/// Only who holds the mutex of the same name uses it.
#[derive(Clone, Debug)]
pub(crate) struct OncePer {
    period: Duration,
    quota: Quota,
    bucket: Arc<dyn Limiter>,
}

impl OncePer {
    pub(crate) fn new(store: &dyn Store, name: &str, period: Duration) -> Result<Self> {
        let quota = Quota::per_second(RATE).burst(microseconds(period));
        let bucket = store.limiter(name, LimiterOptions::new(quota).on_mismatch(OnMismatch::Replace))?;
        Ok(Self { period, quota, bucket })
    }

    /// Returns the time until the next run is due; zero if it is.
    pub(crate) async fn due_in(&self) -> Result<Duration> {
        // By the period of the last run, which may have been another one. What is due by that is
        // due, and the bucket stays as it is until a run is noted.
        if self.bucket.peek().await?.reset_after.is_zero() {
            return Ok(Duration::ZERO);
        }
        self.bucket.set_quota(self.quota).await?;
        Ok(self.bucket.peek().await?.reset_after)
    }

    /// Notes that a run has succeeded that has begun then: the next one is due a period after it.
    /// Returns whether it is noted: not, if somebody else has used the bucket.
    pub(crate) async fn note(&self, begun: Instant) -> Result<bool> {
        match microseconds(self.period.saturating_sub(begun.elapsed())) {
            0 => Ok(true),
            cost => {
                self.bucket.set_quota(self.quota).await?;
                self.bucket.reset().await?;
                Ok(self.bucket.allow_n(cost).await?.allowed)
            }
        }
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}
