//! Locks that nobody else wants.

use std::time::Duration;

use crate::Failure;
use crate::figure::{Column, quantile, whole};
use crate::load::crew::{clock, crew, repeat};
use crate::lock::Lock;
use crate::measure::Figures;

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Pairs {
    /// How many pairs of an acquisition and a release there were.
    pub pairs: f64,
    /// Pairs a second, over all tasks.
    pub rate: f64,
    /// The time of a pair that half of them did not need, in seconds.
    pub p50: f64,
    /// The time that all but a hundredth did not need, in seconds.
    pub p99: f64,
}

impl Pairs {
    /// What [`figures`](Self::figures) are.
    #[must_use]
    pub fn columns() -> Vec<Column> {
        vec![Column::rate("pairs a second"), Column::time("p50"), Column::time("p99")]
    }

    /// As a slice gives them.
    #[must_use]
    pub fn figures(&self) -> Figures {
        vec![self.rate, self.p50, self.p99]
    }
}

/// Every lock has a task of its own that takes it and gives it back, for a while. The clock is read once for each
/// batch of pairs, which then counts as one time: for pairs that take less than a look at the clock.
///
/// # Errors
/// The side's.
pub async fn uncontended<L: Lock>(locks: &[L], time: Duration, batch: usize) -> Result<Pairs, Failure> {
    let end = clock() + time;
    let task = |lock: L| async move {
        repeat(end, batch, || async {
            let held = lock.lock().await?;
            lock.release(held).await
        })
        .await
    };
    let (tasks, seconds) = crew(locks.iter().cloned().map(task)).await?;
    let pairs = whole(tasks.iter().map(|(pairs, _)| pairs).sum());
    let mut times: Vec<f64> = tasks.into_iter().flat_map(|(_, times)| times).collect();
    Ok(Pairs {
        pairs,
        rate: pairs / seconds,
        p50: quantile(&mut times, 0.5),
        p99: quantile(&mut times, 0.99),
    })
}
