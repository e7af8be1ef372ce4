//! The quota as a user writes it.

use std::fmt;
use std::time::Duration;

use super::ExactQuota;
use crate::Result;

/// A rate, `amount` tokens per `period`, and a burst: the most tokens that can be saved up.
///
/// The builders check nothing; [`validate`](Self::validate) does, before any I/O. Two quotas are
/// equal if they are written the same way: `per_second(1)` and `per_minute(60)` are not, their
/// [`ExactQuota`]s differ by the burst only.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use stanchion::Quota;
///
/// let quota = Quota::per_second(10).burst(20);
/// assert!(quota.validate().is_ok());
/// assert_eq!(Quota::per(3, Duration::from_millis(500)).to_string(), "3 per 500ms, burst 3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    amount: u64,
    period: Duration,
    burst: u64,
}

impl Quota {
    /// `amount` tokens per `period`, with a burst of `amount`. The period is a whole number of
    /// microseconds.
    #[must_use]
    pub const fn per(amount: u64, period: Duration) -> Self {
        Self { amount, period, burst: amount }
    }

    /// `amount` tokens per second, with a burst of `amount`.
    #[must_use]
    pub const fn per_second(amount: u64) -> Self {
        Self::per(amount, Duration::from_secs(1))
    }

    /// `amount` tokens per minute, with a burst of `amount`.
    #[must_use]
    pub const fn per_minute(amount: u64) -> Self {
        Self::per(amount, Duration::from_secs(60))
    }

    /// `amount` tokens per hour, with a burst of `amount`.
    #[must_use]
    pub const fn per_hour(amount: u64) -> Self {
        Self::per(amount, Duration::from_secs(3600))
    }

    /// The same rate with a burst of `tokens`, from 1 to 2⁵³ − 1.
    #[must_use]
    pub const fn burst(self, tokens: u64) -> Self {
        Self { burst: tokens, ..self }
    }

    /// Tokens per period, as written.
    #[must_use]
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// The period, as written.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// The burst in tokens.
    #[must_use]
    pub const fn burst_tokens(&self) -> u64 {
        self.burst
    }

    /// Reduces the rate to lowest terms and checks that its arithmetic is exact ([L11]).
    ///
    /// # Errors
    /// `InvalidArgument` if amount, period or burst is zero, the period has a part below a
    /// microsecond, the burst is 2⁵³ or more, or the reduced `amount · period in µs` is 2⁵³ or
    /// more; the last names the nearest exact quota.
    ///
    /// [L11]: crate::contract#l11
    pub fn validate(&self) -> Result<ExactQuota> {
        ExactQuota::new(self)
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {:?}, burst {}", self.amount, self.period, self.burst)
    }
}
