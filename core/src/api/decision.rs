//! The answers of a limiter.

use std::time::Duration;

use crate::Quota;
use crate::limiter::Verdict;

/// Maximum window that a policy states, in seconds.
const DAY: u64 = 24 * 60 * 60;
/// A second, in µs.
const SECOND: u64 = 1_000_000;

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

    /// Returns the HTTP fields `ratelimit-policy` and `ratelimit` of an answer, as of
    /// [draft-ietf-httpapi-ratelimit-headers-10], with `retry-after` for a refusal.
    ///
    /// The policy states the quota and its window: `"default";q=50;w=1` for 50 tokens a second. If
    /// the period is no whole number of seconds, the window is the shortest one of whole seconds in
    /// which whole tokens come. It is left out if it is longer than a day. `r` is what could be
    /// taken at once, and `t` in how many seconds, rounded up, the burst is whole.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use stanchion::{LimiterOptions, Quota};
    ///
    /// let quota = Quota::per_minute(60).burst(10);
    /// let decision = store.limiter("partner", LimiterOptions::new(quota))?.allow_n(4).await?;
    /// let fields = decision.headers(&quota);
    /// assert_eq!(fields[0], ("ratelimit-policy", "\"default\";q=60;w=60".to_owned()));
    /// assert_eq!(fields[1], ("ratelimit", "\"default\";r=6;t=4".to_owned()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [draft-ietf-httpapi-ratelimit-headers-10]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/10/
    #[must_use]
    pub fn headers(&self, quota: &Quota) -> Vec<(&'static str, String)> {
        let policy = match window(quota) {
            Some((tokens, seconds)) => format!("\"default\";q={tokens};w={seconds}"),
            None => format!("\"default\";q={}", quota.burst_tokens()),
        };
        let state = format!("\"default\";r={};t={}", self.remaining, self.reset_after_secs());
        let mut fields = vec![("ratelimit-policy", policy), ("ratelimit", state)];
        fields.extend(self.retry_after_secs().map(|seconds| ("retry-after", seconds.to_string())));
        fields
    }
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

/// The period, if that is whole seconds, else the shortest window of whole seconds in which a whole
/// number of tokens comes, with that number; `None` if it is longer than a day.
fn window(quota: &Quota) -> Option<(u64, u64)> {
    let second = u128::from(SECOND);
    let (amount, period) = (u128::from(quota.amount()), quota.period().as_micros());
    let seconds = match period {
        0 => return None,
        _ if period.is_multiple_of(second) => period / second,
        _ => period / gcd(period, amount * second),
    };
    let tokens = amount * seconds * second / period;
    let window = (u64::try_from(tokens).ok()?, u64::try_from(seconds).ok()?);
    (window.1 <= DAY && tokens > 0).then_some(window)
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
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
    fn the_window_is_the_period_or_the_shortest_one_of_whole_seconds() {
        let window = |amount, micros| window(&Quota::per(amount, Duration::from_micros(micros)));
        assert_eq!(window(50, 1_000_000), Some((50, 1)));
        assert_eq!(window(60, 60_000_000), Some((60, 60)));
        assert_eq!(window(3, 500_000), Some((6, 1)));
        assert_eq!(window(1, 1_500_000), Some((2, 3)));
        assert_eq!(window(1, 7), Some((1_000_000, 7)));
        assert_eq!(window(1, 2 * DAY * 1_000_000), None);
    }

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
