//! The quota in lowest terms, and the bound below which it is exact.

use std::fmt;

use super::{MAX, Quota};
use crate::{Error, Result};

/// A quota in lowest terms whose arithmetic is exact (L11): `amount · period < 2⁵³`, burst from 1 to 2⁵³ − 1.
///
/// Made by [`Quota::validate`]. Two are equal exactly if they admit the same.
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

    /// Checks that a cost can ever be admitted: at most the burst (L9).
    ///
    /// # Errors
    /// `InvalidArgument` naming the cost and the burst.
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
        write!(f, "{} per {} µs, burst {}", self.amount, self.period, self.burst)
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

/// The ratio nearest to `target` among those whose terms multiply to at most `largest`; the smaller of two.
///
/// Walks down the Stern–Brocot tree. Every ratio between the two neighbours `low` and `high` has terms at least as
/// large as their mediant's, so once the mediant is over the bound, one of the two is the nearest. The bound on the
/// product takes the place of the usual one on the denominator (Graham, Knuth, Patashnik: Concrete Mathematics, 4.5).
fn nearest(target: Ratio, largest: u64) -> Ratio {
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
    if low.0 == 0 {
        return high;
    }
    if high.1 == 0 {
        return low;
    }
    // Distances from the target, both times `target.1 · low.1 · high.1`; each is at most `target.1`.
    let below = (target.0 * low.1 - low.0 * target.1) * high.1;
    let above = (high.0 * target.1 - target.0 * high.1) * low.1;
    if above < below { high } else { low }
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
                }
            }
        }
    }
}
