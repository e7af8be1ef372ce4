//! The answers of a limiter.

use std::time::Duration;

use crate::limiter::Verdict;

/// The part of the system that made a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecidedBy {
    /// The store, by its clock.
    Store,
    /// A refusal by the store that still holds, remembered in this process.
    LocalCache,
    /// The outage policy, while the store was away ([L10]).
    ///
    /// [L10]: crate::contract#l10
    OutagePolicy,
}

/// The answer of a limiter ([L8]).
///
/// [L8]: crate::contract#l8
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// Whether the cost was taken.
    pub allowed: bool,
    /// The burst: the maximum that can ever be taken at once.
    pub limit: u64,
    /// The cost that could be taken at once after this decision.
    pub remaining: u64,
    /// Time after which the same cost is admitted, if no other caller takes tokens before; `None`
    /// if allowed.
    pub retry_after: Option<Duration>,
    /// Time after which the bucket is full, if no caller takes tokens before.
    pub reset_after: Duration,
    /// The part of the system that made the decision.
    pub decided_by: DecidedBy,
}

impl Decision {
    /// Makes a decision by the store.
    #[must_use]
    pub fn new(limit: u64, remaining: u64, retry_after: Option<Duration>, reset_after: Duration) -> Self {
        let allowed = retry_after.is_none();
        Self { allowed, limit, remaining, retry_after, reset_after, decided_by: DecidedBy::Store }
    }

    /// Returns the value of `Retry-After` for a refusal: whole seconds, rounded up, at least 1;
    /// `None` if allowed. A client that waits that long is not early.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// use stanchion::Decision;
    ///
    /// let refused = Decision::new(10, 0, Some(Duration::from_millis(1_200)), Duration::from_secs(5));
    /// assert_eq!(refused.retry_after_secs(), Some(2));
    /// ```
    #[must_use]
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.retry_after.map(|time| whole_seconds(time).max(1))
    }

    /// Returns the time until the bucket is full, in whole seconds, rounded up.
    #[must_use]
    pub fn reset_after_secs(&self) -> u64 {
        whole_seconds(self.reset_after)
    }
}

pub(super) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

impl From<Verdict> for Decision {
    #[inline]
    fn from(verdict: Verdict) -> Self {
        let Verdict { limit, remaining, retry_after, reset_after, .. } = verdict;
        let retry_after = retry_after.map(Duration::from_micros);
        Self::new(limit, remaining, retry_after, Duration::from_micros(reset_after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_is_never_early() {
        let refused = |micros| {
            let wait = Some(Duration::from_micros(micros));
            Decision::new(1, 0, wait, Duration::from_micros(micros)).retry_after_secs()
        };
        assert_eq!([1, 1_000_000, 1_000_001].map(refused), [Some(1), Some(1), Some(2)]);
        assert_eq!(Decision::new(1, 1, None, Duration::ZERO).retry_after_secs(), None);
    }
}
