//! Many tasks compete for one lock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::Failure;
use crate::figure::{Better, Column, Unit, quantile, whole};
use crate::load::tasks::{clock, run_tasks};
use crate::lock::Lock;
use crate::measure::Figures;

/// Tolerance: of two tasks that ask within this time, neither overtakes the other.
const AT_ONCE: Duration = Duration::from_millis(1);

/// The results of a contended lock.
#[derive(Clone, Copy, Debug)]
pub struct Contended {
    /// Number of grants.
    pub grants: f64,
    /// Grants a second.
    pub rate: f64,
    /// The longest wait divided by the mean wait.
    pub longest: f64,
    /// The 99.9th percentile of the waits divided by the mean wait.
    pub p999: f64,
    /// Fraction of grants made while another task still waited that had asked over a millisecond
    /// earlier.
    pub overtook: f64,
}

impl Contended {
    /// Description of the load, for readers of a table.
    pub const ABOUT: &'static str = "Each takes the one mutex, holds it, over one turn of the other tasks if that \
        is no time, gives it back and asks again at once. *Overtook* is the part of the grants to one while \
        another still waited that had asked over a millisecond earlier.";
    /// Index of a fairness column in [`figures`](Self::figures).
    pub const P999: usize = 1;
    /// As [`P999`](Self::P999).
    pub const OVERTOOK: usize = 3;

    /// Returns the columns of [`figures`](Self::figures).
    #[must_use]
    pub fn columns() -> Vec<Column> {
        vec![
            Column::rate("grants a second"),
            Column::count("p99.9 of the waits / mean"),
            Column::count("longest wait / mean"),
            Column::new("overtook", Unit::Share, Better::Less),
        ]
    }

    /// Returns the figures of a slice.
    #[must_use]
    pub fn figures(&self) -> Figures {
        vec![self.rate, self.p999, self.longest, self.overtook]
    }
}

/// When a task asked, and when it was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    asked: Instant,
    granted: Instant,
}

/// Runs `tasks` tasks for `time`. Each takes the one lock, holds it for `hold`, or over one yield
/// to the other tasks if `hold` is zero, releases it and asks again. A task that waits at the end
/// still gets its grant. The first wait of each task belongs to the start and is left out of the
/// times.
///
/// # Errors
/// The errors of the side.
pub async fn contended<L: Lock>(
    lock: &L,
    tasks: usize,
    hold: Duration,
    time: Duration,
) -> Result<Contended, Failure> {
    let end = clock() + time;
    let task = |lock: L| async move {
        let mut waits = Vec::new();
        loop {
            let asked = clock();
            let held = lock.lock().await?;
            let granted = clock();
            waits.push(Wait { asked, granted });
            if hold.is_zero() {
                tokio::task::yield_now().await;
            } else {
                sleep(hold).await;
            }
            lock.release(held).await?;
            if granted >= end {
                return Ok(waits);
            }
        }
    };
    let (tasks, seconds) = run_tasks((0..tasks).map(|_| task(lock.clone()))).await?;
    let all: Vec<Wait> = tasks.iter().flatten().copied().collect();
    let later = tasks.iter().flat_map(|waits| waits.iter().skip(1));
    let mut waits: Vec<f64> = later.map(|wait| (wait.granted - wait.asked).as_secs_f64()).collect();
    let mean = waits.iter().sum::<f64>() / whole(waits.len());
    let grants = whole(all.len());
    let overtook = whole(overtakers(all));
    Ok(Contended {
        grants,
        rate: grants / seconds,
        longest: quantile(&mut waits, 1.0) / mean,
        p999: quantile(&mut waits, 0.999) / mean,
        overtook: overtook / grants,
    })
}

/// Counts the grants made while another task waited that had asked earlier.
fn overtakers(mut waits: Vec<Wait>) -> usize {
    waits.sort_unstable_by_key(|wait| wait.granted);
    let mut waiting: BTreeMap<Instant, usize> = BTreeMap::new();
    for wait in &waits {
        *waiting.entry(wait.asked).or_default() += 1;
    }
    let mut overtakers = 0;
    for wait in &waits {
        if let Some(count) = waiting.get_mut(&wait.asked) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&wait.asked);
            }
        }
        // Tasks that ask later are in the map too, behind this one.
        let first = waiting.keys().next();
        overtakers += usize::from(first.is_some_and(|first| *first + AT_ONCE < wait.asked));
    }
    overtakers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overtaken(waits: &[(u64, u64)]) -> usize {
        let begin = clock();
        let at = |millis| begin + Duration::from_millis(millis);
        overtakers(
            waits.iter().map(|&(asked, granted)| Wait { asked: at(asked), granted: at(granted) }).collect(),
        )
    }

    #[test]
    fn in_line_no_task_overtakes() {
        assert_eq!(overtaken(&[(0, 10), (5, 20), (7, 30), (15, 40)]), 0);
    }

    #[test]
    fn a_task_that_asks_later_and_is_granted_first_overtakes() {
        assert_eq!(overtaken(&[(0, 40), (5, 20), (7, 30), (50, 60)]), 2);
    }

    #[test]
    fn tasks_that_ask_at_once_do_not_overtake() {
        assert_eq!(overtaken(&[(0, 40), (1, 20)]), 0);
    }
}
