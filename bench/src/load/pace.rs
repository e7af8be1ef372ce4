//! How fast something that is repeated goes.

use crate::figure::{Column, quantile};
use crate::measure::Figures;

/// What came of a slice that repeats one thing.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How many there were: pairs of an acquisition and a release, decisions that admitted, or items.
    pub count: f64,
    /// As many a second, over all tasks.
    pub rate: f64,
    /// The time of one that half of them did not need, in seconds.
    pub p50: f64,
    /// The time that all but a hundredth did not need, in seconds.
    pub p99: f64,
}

impl Pace {
    pub(super) fn of(count: f64, seconds: f64, times: &mut [f64]) -> Self {
        Self { count, rate: count / seconds, p50: quantile(times, 0.5), p99: quantile(times, 0.99) }
    }

    /// What [`figures`](Self::figures) are, of things of that name: `pairs`, `admitted`, `items`.
    #[must_use]
    pub fn columns(things: &str) -> Vec<Column> {
        vec![Column::rate(&format!("{things} a second")), Column::time("p50"), Column::time("p99")]
    }

    /// As a slice gives them.
    #[must_use]
    pub fn figures(&self) -> Figures {
        vec![self.rate, self.p50, self.p99]
    }
}
