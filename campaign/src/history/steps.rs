//! A number that changes over time, and its extremes in a time span.

/// A step function of time; 0 before its first step. A query takes logarithmic time.
#[derive(Debug)]
pub(super) struct Steps {
    times: Vec<u64>,
    /// The steps, from index `times.len()` on; below that index, the smallest and the largest value
    /// of each pair.
    tree: Vec<(i64, i64)>,
}

impl Steps {
    /// Creates it from changes in any order; changes at the same time count as one.
    pub(super) fn of(mut changes: Vec<(u64, i64)>) -> Self {
        changes.sort_unstable_by_key(|change| change.0);
        let (mut times, mut values, mut sum) = (vec![0], vec![0_i64], 0);
        for (at, change) in changes {
            sum += change;
            if times.last() == Some(&at) {
                values.pop();
            } else {
                times.push(at);
            }
            values.push(sum);
        }
        let count = values.len();
        let mut tree = vec![(i64::MAX, i64::MIN); count];
        tree.extend(values.into_iter().map(|value| (value, value)));
        for node in (1..count).rev() {
            tree[node] = extremes(tree[2 * node], tree[2 * node + 1]);
        }
        Self { times, tree }
    }

    /// Returns the smallest and the largest value at any time of the span, both ends included.
    pub(super) fn extremes(&self, from: u64, to: u64) -> (i64, i64) {
        let count = self.times.len();
        let first = self.times.partition_point(|time| *time <= from).saturating_sub(1);
        let last = self.times.partition_point(|time| *time <= to).max(first + 1);
        let (mut low, mut high) = (first + count, last + count);
        let mut found = (i64::MAX, i64::MIN);
        while low < high {
            if low % 2 == 1 {
                found = extremes(found, self.tree[low]);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                found = extremes(found, self.tree[high]);
            }
            low /= 2;
            high /= 2;
        }
        found
    }
}

fn extremes(one: (i64, i64), other: (i64, i64)) -> (i64, i64) {
    (one.0.min(other.0), one.1.max(other.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_agree_with_a_look_at_every_time() {
        let changes = vec![(3, 2), (5, -1), (5, 4), (9, -5), (12, 7), (12, -7), (14, 1)];
        let value =
            |at: u64| changes.iter().filter(|change| change.0 <= at).map(|change| change.1).sum::<i64>();
        let steps = Steps::of(changes.clone());
        for from in 0..20 {
            for to in from..20 {
                let all = || (from..=to).map(value);
                let expected = (all().min().unwrap(), all().max().unwrap());
                assert_eq!(steps.extremes(from, to), expected, "{from} to {to}");
            }
        }
    }
}
