//! The measured times beside their bounds.

use std::fmt;

use super::measures::{Bound, Limit, Measure};
use super::{Deployment, Sample};

/// Median and worst time of each measure on each store, with the bound. `Display` writes a line for
/// each.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    measure: Measure,
    deployment: Deployment,
    runs: usize,
    median: i64,
    worst: i64,
    bound: Bound,
}

impl Row {
    /// Sums up one measure; `None` without a sample.
    fn of(samples: &[Sample], measure: Measure, deployment: Deployment) -> Option<Self> {
        let bound = measure.bound(deployment)?;
        let own =
            samples.iter().filter(|sample| sample.measure == measure && sample.deployment == deployment);
        let mut times: Vec<_> = own.map(|sample| sample.micros).collect();
        times.sort_unstable();
        let worst = bound.limit.worst(times.iter().copied())?;
        Some(Self { measure, deployment, runs: times.len(), median: median(&times)?, worst, bound })
    }

    fn is_within(&self) -> bool {
        self.bound.limit.holds(self.worst)
    }
}

/// Returns the median of sorted times; the mean of the middle two for an even count.
fn median(times: &[i64]) -> Option<i64> {
    let (below, above) = (times.get(times.len().checked_sub(1)? / 2)?, times.get(times.len() / 2)?);
    Some(below + (above - below) / 2)
}

impl Table {
    /// Sums up the samples.
    #[must_use]
    pub fn of(samples: &[Sample]) -> Self {
        let rows = Measure::ALL.into_iter().flat_map(|measure| {
            Deployment::ALL.into_iter().filter_map(move |deployment| Row::of(samples, measure, deployment))
        });
        Self { rows: rows.collect() }
    }

    /// Returns the number of rows: one for each measured combination of measure and store.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether nothing was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns whether every time is within its bound; `true` for an empty table.
    #[must_use]
    pub fn is_within(&self) -> bool {
        self.rows.iter().all(Row::is_within)
    }
}

fn seconds(micros: i64) -> String {
    let (sign, millis) = (if micros < 0 { "-" } else { "" }, (micros.unsigned_abs() + 500) / 1_000);
    format!("{sign}{}.{:03} s", millis / 1_000, millis % 1_000)
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match *self {
            Self::AtMost(limit) => format!("<= {}", seconds(limit)),
            Self::MoreThan(limit) => format!("> {}", seconds(limit)),
        })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<50} {:<18} {:>4} {:>9} {:>9}   {:<11} clause",
            "measure", "store", "runs", "median", "worst", "bound"
        )?;
        for row in &self.rows {
            let Row { measure, deployment, runs, median, worst, bound } = row;
            let (median, worst) = (seconds(*median), seconds(*worst));
            let verdict = if row.is_within() { "ok" } else { "OVER" };
            writeln!(
                f,
                "{measure:<50} {deployment:<18} {runs:>4} {median:>9} {worst:>9}   {:<11} {:<26} {verdict}",
                bound.limit, bound.clause
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(measure: Measure, deployment: Deployment, times: &[i64]) -> Vec<Sample> {
        times.iter().map(|micros| Sample { deployment, measure, micros: *micros }).collect()
    }

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7]), Some(7));
        assert_eq!(median(&[1, 7, 9]), Some(7));
        assert_eq!(median(&[-2, 1, 7, 9]), Some(4));
    }

    #[test]
    fn a_time_is_told_in_milliseconds() {
        let times =
            [(0, "0.000 s"), (1_500_000, "1.500 s"), (61_002_500, "61.003 s"), (-440_000, "-0.440 s")];
        for (micros, text) in times {
            assert_eq!(seconds(micros), text);
        }
    }

    #[test]
    fn a_row_is_over_by_its_worst_time() {
        let mut all = samples(Measure::DeadHolder, Deployment::Redis, &[900_000, 1_501_000, 800_000]);
        all.extend(samples(Measure::CutOffBelief, Deployment::Postgres, &[60_000, 70_000]));
        let table = Table::of(&all);
        assert_eq!(table.len(), 2);
        assert!(!table.is_within());
        let text = table.to_string();
        let lines: Vec<_> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines[1..],
            [
                "dead holder: kill to next grant redis 3 0.900 s 1.501 s <= 1.500 s C8: TTL + ε OVER",
                "cut-off holder: its deadline to next grant postgres 2 0.065 s 0.060 s > 0.000 s M1: D before the next ok",
            ]
        );
        all.retain(|sample| sample.micros != 1_501_000);
        assert!(Table::of(&all).is_within());
        all.extend(samples(Measure::CutOffBelief, Deployment::Postgres, &[0]));
        assert!(!Table::of(&all).is_within());
    }

    #[test]
    fn what_is_not_measured_has_no_row() {
        assert!(Table::of(&[]).is_empty());
        let all = samples(Measure::LostWakeUp, Deployment::PostgresSessions, &[1]);
        assert!(Table::of(&all).is_empty(), "the contract says nothing about it");
    }
}
