//! What is measured: a figure's name and unit, and how the figures of many slices are told as one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// So many in a second.
    PerSecond,
    /// Seconds, shown in what fits.
    Time,
    /// A plain number.
    Number,
    /// A part of one, shown in percent.
    Share,
    /// Bytes, shown in what fits.
    Bytes,
}

/// Which of two figures is the better one.
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
    /// What it counts.
    pub unit: Unit,
    /// Which one wins.
    pub better: Better,
}

impl Column {
    /// A figure by its name.
    #[must_use]
    pub fn new(name: &str, unit: Unit, better: Better) -> Self {
        Self { name: name.to_owned(), unit, better }
    }

    /// A rate.
    #[must_use]
    pub fn rate(name: &str) -> Self {
        Self::new(name, Unit::PerSecond, Better::More)
    }

    /// A time in seconds.
    #[must_use]
    pub fn time(name: &str) -> Self {
        Self::new(name, Unit::Time, Better::Less)
    }

    /// A number that is to be small.
    #[must_use]
    pub fn count(name: &str) -> Self {
        Self::new(name, Unit::Number, Better::Less)
    }

    /// A figure of this column as a reader wants it.
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

/// With three digits that count, or whole.
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

/// A figure over all slices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The one in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of figures in any order; those that are no numbers are left out. `None` when nothing is left.
    #[must_use]
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<f64> = figures.into_iter().filter(|figure| figure.is_finite()).collect();
        figures.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*figures.first()?, *figures.last()?);
        Some(Self { median: *figures.get(figures.len() / 2)?, min, max })
    }
}

/// The figure below which that part of all is; sorts them. Not a number when there is none.
#[must_use]
pub fn quantile(figures: &mut [f64], part: f64) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    // At most the number of figures, and no less than 0.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let index = (whole(figures.len()) * part.clamp(0.0, 1.0)) as usize;
    figures.get(index.min(figures.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// So many of something: `1 task`, `16 tasks`.
#[must_use]
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A count as a figure; exact up to 2⁵³.
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
