//! The cost that was certainly admitted in every window, in whole numbers.

use stanchion_core::Quota;

/// A cost that was admitted at an unknown time of a span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charge {
    pub(super) earliest: u64,
    pub(super) latest: u64,
    pub(super) cost: u64,
}

/// A window in which more was admitted than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Excess {
    /// The begin of the window.
    pub(super) from: u64,
    /// The cost that was certainly admitted in it.
    pub(super) admitted: u128,
    /// The index of the charge with which it ends.
    pub(super) last: usize,
}

/// `amount` per `period`, and a burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub(super) amount: u64,
    pub(super) period: u64,
    pub(super) burst: u64,
}

impl Rate {
    /// Returns the rate at `percent` of a quota; `None` for a quota that no store accepts.
    pub(super) fn of(quota: Quota, percent: u64) -> Option<Self> {
        let exact = quota.validate().ok()?;
        let (amount, period) = (exact.amount().checked_mul(percent)?, exact.period().checked_mul(100)?);
        Some(Self { amount, period, burst: exact.burst() })
    }
}

/// Returns the first window with more than `burst + rate · length`. `charges` are in the order of
/// their latest times.
///
/// A tree keeps, for every begin `a` of a window, the sum of `period · cost` over the charges
/// between `a` and now, plus `amount · a`. That sum must not exceed `period · burst + amount ·
/// now`. With charges at exact times this is the leaky bucket. Takes `n log n` time.
pub(super) fn first_excess(charges: &[Charge], rate: Rate) -> Option<Excess> {
    let mut begins: Vec<u64> = charges.iter().map(|charge| charge.earliest).collect();
    begins.sort_unstable();
    begins.dedup();
    let (amount, period) = (i128::from(rate.amount), i128::from(rate.period));
    let mut tree = Tree::of(begins.iter().map(|begin| amount * i128::from(*begin)));
    for (last, charge) in charges.iter().enumerate() {
        let place = begins.partition_point(|begin| *begin <= charge.earliest);
        tree.add(place, period * i128::from(charge.cost));
        let (sum, begin) = tree.largest(place);
        if sum > period * i128::from(rate.burst) + amount * i128::from(charge.latest) {
            let from = begins[begin];
            let admitted = u128::try_from((sum - amount * i128::from(from)) / period).unwrap_or(0);
            return Some(Excess { from, admitted, last });
        }
    }
    None
}

/// A sequence of numbers with two operations on a prefix: raise all its numbers, and find the
/// largest.
struct Tree {
    leaves: usize,
    /// For each node, the largest number below it, without the raises of its ancestors, and its
    /// index.
    largest: Vec<(i128, usize)>,
    raised: Vec<i128>,
}

impl Tree {
    fn of(values: impl ExactSizeIterator<Item = i128>) -> Self {
        let leaves = values.len().next_power_of_two();
        let mut largest = vec![(i128::MIN / 2, 0); 2 * leaves];
        for (index, value) in values.enumerate() {
            largest[leaves + index] = (value, index);
        }
        for node in (1..leaves).rev() {
            largest[node] = largest[2 * node].max(largest[2 * node + 1]);
        }
        Self { leaves, largest, raised: vec![0; 2 * leaves] }
    }

    /// Raises the first `count` numbers; `count` is at least 1.
    fn add(&mut self, count: usize, by: i128) {
        let mut node = self.leaves + count - 1;
        self.raise(node, by);
        while node > 1 {
            if node % 2 == 1 {
                self.raise(node - 1, by);
            }
            node /= 2;
            let below = self.largest[2 * node].max(self.largest[2 * node + 1]);
            self.largest[node] = (below.0 + self.raised[node], below.1);
        }
    }

    fn raise(&mut self, node: usize, by: i128) {
        self.largest[node].0 += by;
        self.raised[node] += by;
    }

    /// Returns the largest of the first `count` numbers and its index; `count` is at least 1.
    fn largest(&self, count: usize) -> (i128, usize) {
        let mut node = self.leaves + count - 1;
        let mut found = self.largest[node];
        while node > 1 {
            if node % 2 == 1 {
                found = found.max(self.largest[node - 1]);
            }
            node /= 2;
            found.0 += self.raised[node];
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exceeds(charges: &[Charge], rate: Rate) -> bool {
        charges.iter().any(|first| {
            charges.iter().any(|last| {
                let inside =
                    |charge: &&Charge| charge.earliest >= first.earliest && charge.latest <= last.latest;
                let sum: u64 = charges.iter().filter(inside).map(|charge| charge.cost).sum();
                let length = last.latest.saturating_sub(first.earliest);
                last.latest >= first.earliest
                    && sum * rate.period > rate.burst * rate.period + rate.amount * length
            })
        })
    }

    proptest! {
        #[test]
        fn finds_an_excess_exactly_if_some_window_has_one(
            spans in prop::collection::vec((0_u64..40, 0_u64..6, 1_u64..4), 1..25),
            amount in 1_u64..4,
            period in 1_u64..5,
            burst in 1_u64..8,
        ) {
            let charge = |(earliest, length, cost)| Charge { earliest, latest: earliest + length, cost };
            let mut charges: Vec<Charge> = spans.into_iter().map(charge).collect();
            charges.sort_by_key(|charge| charge.latest);
            let rate = Rate { amount, period, burst };
            prop_assert_eq!(first_excess(&charges, rate).is_some(), exceeds(&charges, rate));
        }
    }
}
