//! The quota in lowest terms, and the bound below which it is exact.

use std::fmt;
use std::num::NonZeroU32;

use super::{MAX, Quota};
use crate::{Error, Result};

/// A quota in lowest terms whose arithmetic is exact ([L11]): `amount · period < 2⁵³`, burst from 1
/// to 2⁵³ − 1.
///
/// Made by [`Quota::validate`]. Two are equal exactly if they admit the same.
///
/// [L11]: crate::contract#l11
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExactQuota {
    amount: u64,
    period: u64,
    burst: u64,
}

impl ExactQuota {
    pub(super) fn new(quota: &Quota) -> Result<Self> {
        let (amount, burst) = (quota.amount(), quota.burst_tokens());
        if amount == 0 {
            return Err(Error::invalid_argument("the amount of a quota is at least 1"));
        }
        if quota.period().is_zero() || !quota.period().subsec_nanos().is_multiple_of(1000) {
            return Err(Error::invalid_argument(
                "the period of a quota is a whole number of microseconds, at least 1",
            ));
        }
        if burst == 0 || burst > MAX {
            return Err(Error::invalid_argument(format!(
                "the burst of a quota is from 1 to {MAX}, not {burst}"
            )));
        }
        let period = quota.period().as_micros();
        let divisor = gcd(u128::from(amount), period);
        let reduced = (u128::from(amount) / divisor, period / divisor);
        match (u64::try_from(reduced.0), u64::try_from(reduced.1)) {
            (Ok(amount), Ok(period)) if within(reduced, MAX) => Ok(Self { amount, period, burst }),
            _ => Err(inexact(quota, reduced)),
        }
    }

    /// Tokens per [`period`](Self::period), in lowest terms.
    #[must_use]
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// The period in microseconds, in lowest terms.
    #[must_use]
    pub const fn period(&self) -> u64 {
        self.period
    }

    /// The burst in tokens.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// The `n`-th part of the rate and of the burst, as each of `n` processes may take ([L10]): the
    /// nearest exact rate not above it, at least one token in 2⁵³ − 1 µs, and a burst of at least
    /// 1.
    ///
    /// [L10]: crate::contract#l10
    #[must_use]
    pub fn share(&self, n: NonZeroU32) -> Self {
        let n = u64::from(n.get());
        let (amount, period) = (u128::from(self.amount), u128::from(self.period) * u128::from(n));
        let divisor = gcd(amount, period);
        let target = (amount / divisor, period / divisor);
        let ratio = if within(target, MAX) { target } else { neighbours(target, MAX).0 };
        let (amount, period) = match (u64::try_from(ratio.0), u64::try_from(ratio.1)) {
            (Ok(amount @ 1..), Ok(period)) => (amount, period),
            _ => (1, MAX),
        };
        Self { amount, period, burst: (self.burst / n).max(1) }
    }

    /// Checks that a cost can ever be admitted: at most the burst ([L9]).
    ///
    /// # Errors
    /// `InvalidArgument` naming the cost and the burst.
    ///
    /// [L9]: crate::contract#l9
    #[inline]
    pub fn check_cost(&self, cost: u64) -> Result<()> {
        if cost > self.burst {
            let burst = self.burst;
            return Err(Error::invalid_argument(format!("a cost of {cost} is over the burst of {burst}")));
        }
        Ok(())
    }
}

impl fmt::Display for ExactQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In the unit that a user has probably written: the shortest of these with a whole number
        // of tokens.
        const UNITS: [(u64, &str); 4] =
            [(1, "second"), (60, "minute"), (60 * 60, "hour"), (24 * 60 * 60, "day")];
        let tokens = |seconds: u64| {
            let micros = u128::from(seconds) * 1_000_000 * u128::from(self.amount);
            let period = u128::from(self.period);
            micros.is_multiple_of(period).then(|| micros / period)
        };
        match UNITS.iter().find_map(|(seconds, unit)| tokens(*seconds).map(|tokens| (tokens, unit))) {
            Some((tokens, unit)) => write!(f, "{tokens} per {unit}, burst {}", self.burst),
            None => write!(f, "{} per {} µs, burst {}", self.amount, self.period, self.burst),
        }
    }
}

/// Numerator and denominator, tokens and microseconds.
type Ratio = (u128, u128);

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn within(ratio: Ratio, largest: u64) -> bool {
    ratio.0.saturating_mul(ratio.1) <= u128::from(largest)
}

fn inexact(quota: &Quota, reduced: Ratio) -> Error {
    let (amount, period) = nearest(reduced, MAX);
    Error::invalid_argument(format!(
        "quota {quota} cannot be exact: in lowest terms amount times period in µs must be below 2^53 \
         ({bound}); the nearest exact one is {amount} per {period} µs",
        bound = MAX + 1,
    ))
}

/// The ratio nearest to `target` among those whose terms multiply to at most `largest`; the smaller
/// of two.
fn nearest(target: Ratio, largest: u64) -> Ratio {
    let (low, high) = neighbours(target, largest);
    if low.0 == 0 {
        return high;
    }
    if high.1 == 0 {
        return low;
    }
    // Distances from the target, both times `target.1 · low.1 · high.1`; each is at most
    // `target.1`.
    let below = (target.0 * low.1 - low.0 * target.1) * high.1;
    let above = (high.0 * target.1 - target.0 * high.1) * low.1;
    if above < below { high } else { low }
}

/// The nearest ratios below and above `target`, which is itself over the bound; 0 / 1 and 1 / 0
/// where there is none.
///
/// Walks down the Stern–Brocot tree. Every ratio between the two neighbours `low` and `high` has
/// terms at least as large as their mediant's, so once the mediant is over the bound, one of the
/// two is the nearest. The bound on the product takes the place of the usual one on the denominator
/// (Graham, Knuth, Patashnik: Concrete Mathematics, 4.5).
fn neighbours(target: Ratio, largest: u64) -> (Ratio, Ratio) {
    let (mut low, mut high) = ((0, 1), (1, 0));
    let mut rest = target;
    let mut rising = true;
    while rest.1 != 0 {
        let steps = rest.0 / rest.1;
        let (moved, fixed) = if rising { (&mut low, high) } else { (&mut high, low) };
        let possible = steps_within(*moved, fixed, steps, largest);
        *moved = step(*moved, fixed, possible);
        if possible < steps {
            break;
        }
        rest = (rest.1, rest.0 % rest.1);
        rising = !rising;
    }
    (low, high)
}

fn step(from: Ratio, by: Ratio, times: u128) -> Ratio {
    (from.0 + by.0 * times, from.1 + by.1 * times)
}

/// How many of `steps` stay within the bound, by bisection.
fn steps_within(from: Ratio, by: Ratio, steps: u128, largest: u64) -> u128 {
    let (mut fits, mut over) = (0, steps.min(u128::from(largest)) + 1);
    while over - fits > 1 {
        let middle = fits.midpoint(over);
        if within(step(from, by, middle), largest) {
            fits = middle;
        } else {
            over = middle;
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// |x − t| < |y − t|, all as ratios.
    fn nearer(x: Ratio, y: Ratio, t: Ratio) -> bool {
        let distance = |r: Ratio| (r.0 * t.1).abs_diff(t.0 * r.1);
        distance(x) * y.1 < distance(y) * x.1
    }

    #[test]
    fn l10_a_share_is_never_more_than_its_part() {
        let shared = |amount, micros, burst, n: u32| {
            let quota = Quota::per(amount, std::time::Duration::from_micros(micros)).burst(burst);
            let share = quota.validate().unwrap().share(NonZeroU32::new(n).unwrap());
            (share.amount, share.period, share.burst)
        };
        assert_eq!(shared(10, 1_000_000, 20, 4), (1, 400_000, 5));
        assert_eq!(shared(10, 1_000_000, 3, 4), (1, 400_000, 1));
        assert_eq!(shared(7, 10, 7, 1), (7, 10, 7));
        assert_eq!(shared(1, MAX, 1, 2), (1, MAX, 1), "the slowest there is");
        for (amount, period) in [(94_906_265, 94_906_265 - 2), (MAX - 1, 1), (3, 7_777_777_777_777)] {
            for n in [2, 3, 1_000, u32::MAX] {
                let quota = Quota::per(amount, std::time::Duration::from_micros(period)).burst(1);
                let Ok(quota) = quota.validate() else { continue };
                let share = quota.share(NonZeroU32::new(n).unwrap());
                let (a, p) = (u128::from(quota.amount), u128::from(quota.period) * u128::from(n));
                assert!(within((share.amount.into(), share.period.into()), MAX));
                let slowest = (share.amount, share.period) == (1, MAX);
                let below = u128::from(share.amount) * p <= a * u128::from(share.period);
                assert!(below || slowest, "{share} of {quota}");
            }
        }
    }

    #[test]
    fn l11_nearest_agrees_with_a_search_of_all_ratios() {
        for largest in [1_u64, 2, 7, 30, 64] {
            let all: Vec<Ratio> = (1..=u128::from(largest))
                .flat_map(|a| (1..=u128::from(largest)).map(move |p| (a, p)))
                .filter(|&r| within(r, largest))
                .collect();
            for amount in 1..80 {
                for period in 1..80 {
                    let target = (amount, period);
                    if gcd(amount, period) != 1 || within(target, largest) {
                        continue;
                    }
                    let found = nearest(target, largest);
                    assert!(within(found, largest) && found.0 > 0 && found.1 > 0);
                    let better = all.iter().find(|&&r| nearer(r, found, target));
                    assert_eq!(better, None, "{target:?} within {largest}: {found:?}");
                    let below = neighbours(target, largest).0;
                    let under = |r: &Ratio| r.0 * target.1 < target.0 * r.1;
                    assert!(below.0 == 0 || under(&below));
                    let better = all.iter().find(|&r| under(r) && r.0 * below.1 > below.0 * r.1);
                    assert_eq!(better, None, "{target:?} from below within {largest}: {below:?}");
                }
            }
        }
    }
}
