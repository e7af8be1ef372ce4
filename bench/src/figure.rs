//! Figures: names, units, and the spread of the figures of many slices.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Number a second.
    PerSecond,
    /// Seconds, shown in a fitting unit.
    Time,
    /// A plain number.
    Number,
    /// Fraction of one, shown in percent.
    Share,
    /// Bytes, shown in a fitting unit.
    Bytes,
}

/// Which of two figures is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// The larger.
    More,
    /// The smaller.
    Less,
}

/// One figure that every side of a measure has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// The head of the column.
    pub name: String,
    /// The unit of its figures.
    pub unit: Unit,
    /// Which figure is better.
    pub better: Better,
}

impl Column {
    /// Creates a column.
    #[must_use]
    pub fn new(name: &str, unit: Unit, better: Better) -> Self {
        Self { name: name.to_owned(), unit, better }
    }

    /// Creates a column of rates; larger is better.
    #[must_use]
    pub fn rate(name: &str) -> Self {
        Self::new(name, Unit::PerSecond, Better::More)
    }

    /// Creates a column of times in seconds; smaller is better.
    #[must_use]
    pub fn time(name: &str) -> Self {
        Self::new(name, Unit::Time, Better::Less)
    }

    /// Creates a column of counts; smaller is better.
    #[must_use]
    pub fn count(name: &str) -> Self {
        Self::new(name, Unit::Number, Better::Less)
    }

    /// Returns a figure of this column in readable form.
    #[must_use]
    pub fn show(&self, value: f64) -> Shown {
        Shown { unit: self.unit, value }
    }
}

/// A figure with its unit; see [`Column::show`].
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    unit: Unit,
    value: f64,
}

impl fmt::Display for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value;
        if !value.is_finite() {
            return formatter.write_str("-");
        }
        match self.unit {
            Unit::PerSecond | Unit::Number => plain(formatter, value),
            Unit::Share => write!(formatter, "{:.1} %", value * 100.0),
            Unit::Time => scaled(formatter, value * 1e9, 1000.0, &["ns", "µs", "ms", "s"]),
            Unit::Bytes => scaled(formatter, value, 1024.0, &["B", "KiB", "MiB", "GiB"]),
        }
    }
}

/// Writes three significant digits, or a whole number.
fn plain(formatter: &mut fmt::Formatter<'_>, value: f64) -> fmt::Result {
    match value.abs() {
        0.0 => formatter.write_str("0"),
        size if size < 10.0 => write!(formatter, "{value:.2}"),
        size if size < 100.0 => write!(formatter, "{value:.1}"),
        _ => {
            let digits = format!("{:.0}", value.abs());
            if value < 0.0 {
                formatter.write_str("-")?;
            }
            for (index, digit) in digits.chars().enumerate() {
                if index > 0 && (digits.len() - index) % 3 == 0 {
                    formatter.write_str(",")?;
                }
                write!(formatter, "{digit}")?;
            }
            Ok(())
        }
    }
}

fn scaled(formatter: &mut fmt::Formatter<'_>, mut value: f64, step: f64, units: &[&str]) -> fmt::Result {
    let mut units = units.iter();
    let mut unit = units.next();
    while value.abs() >= step {
        let Some(next) = units.next() else { break };
        unit = Some(next);
        value /= step;
    }
    plain(formatter, value)?;
    write!(formatter, " {}", unit.unwrap_or(&""))
}

/// The spread of a figure over all slices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of figures in any order. Leaves out figures that are not a number; `None`
    /// if none is left.
    #[must_use]
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<f64> = figures.into_iter().filter(|figure| figure.is_finite()).collect();
        figures.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*figures.first()?, *figures.last()?);
        Some(Self { median: *figures.get(figures.len() / 2)?, min, max })
    }
}

/// Sorts the figures and returns the quantile of `part`; not a number if there is no figure.
#[must_use]
pub fn quantile(figures: &mut [f64], part: f64) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    // Between 0 and the number of figures.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let index = (whole(figures.len()) * part.clamp(0.0, 1.0)) as usize;
    figures.get(index.min(figures.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// Formats a count with its noun: `1 task`, `16 tasks`.
#[must_use]
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Converts a count to a figure; exact up to 2⁵³.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "no count here comes near to it")]
pub fn whole(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_with_what_fits() {
        let shown = |unit, value| Column::new("", unit, Better::Less).show(value).to_string();
        assert_eq!(shown(Unit::Time, 0.000_012_34), "12.3 µs");
        assert_eq!(shown(Unit::Time, 2.5), "2.50 s");
        assert_eq!(shown(Unit::PerSecond, 1_234_567.8), "1,234,568");
        assert_eq!(shown(Unit::Bytes, 2048.0), "2.00 KiB");
        assert_eq!(shown(Unit::Share, 0.987), "98.7 %");
        assert_eq!(shown(Unit::Number, 0.0), "0");
        assert_eq!(shown(Unit::Number, f64::NAN), "-");
    }

    #[test]
    fn one_is_counted_as_one() {
        assert_eq!([0, 1, 16].map(|count| counted(count, "task")), ["0 tasks", "1 task", "16 tasks"]);
    }

    #[test]
    fn a_spread_leaves_out_what_is_no_number() {
        let spread = Spread::of([3.0, f64::NAN, 1.0, 2.0]);
        assert_eq!(spread, Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of([f64::NAN]), None);
    }

    #[test]
    fn a_quantile_is_one_of_the_figures() {
        let mut figures: Vec<f64> = (0..1000).rev().map(f64::from).collect();
        assert_eq!(
            [0.0, 0.5, 0.999, 1.0].map(|part| quantile(&mut figures, part)),
            [0.0, 500.0, 999.0, 999.0]
        );
        assert!(quantile(&mut [], 0.5).is_nan());
    }
}
