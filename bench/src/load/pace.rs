//! The pace of a repeated operation.

use crate::figure::{Column, quantile};
use crate::measure::Figures;

/// The results of a slice that repeats one operation.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Number of pairs of an acquisition and a release, of admitting decisions, or of items.
    pub count: f64,
    /// The same number a second, over all tasks.
    pub rate: f64,
    /// The median time of one, in seconds.
    pub p50: f64,
    /// The 99th percentile of the times, in seconds.
    pub p99: f64,
}

impl Pace {
    pub(super) fn of(count: f64, seconds: f64, times: &mut [f64]) -> Self {
        Self { count, rate: count / seconds, p50: quantile(times, 0.5), p99: quantile(times, 0.99) }
    }

    /// Returns the columns of [`figures`](Self::figures), with the name of what is counted:
    /// `pairs`, `admitted`, `items`.
    #[must_use]
    pub fn columns(things: &str) -> Vec<Column> {
        vec![Column::rate(&format!("{things} a second")), Column::time("p50"), Column::time("p99")]
    }

    /// Returns the figures of a slice.
    #[must_use]
    pub fn figures(&self) -> Figures {
        vec![self.rate, self.p50, self.p99]
    }
}
