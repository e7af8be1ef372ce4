//! One lock that many want.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::Failure;
use crate::figure::{Better, Column, Unit, quantile, whole};
use crate::load::crew::{clock, crew};
use crate::lock::Lock;
use crate::measure::Figures;

/// Two that ask within this time ask at once: neither overtakes the other.
const AT_ONCE: Duration = Duration::from_millis(1);

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Contended {
    /// How often it was granted.
    pub grants: f64,
    /// Grants a second.
    pub rate: f64,
    /// The longest wait by the mean one.
    pub longest: f64,
    /// The wait that all but a thousandth did not exceed, by the mean one.
    pub p999: f64,
    /// Grants to one while another still waited that had asked over a millisecond earlier, as a part of all.
    pub overtook: f64,
}

impl Contended {
    /// What is done, for readers of a table.
    pub const ABOUT: &'static str = "Each takes the one mutex, holds it, over one turn of the other tasks if that is no time, \
         gives it back and asks again at once. *Overtook* is the part of the grants to one while another still waited that had \
         asked over a millisecond earlier.";
    /// The columns of [`figures`](Self::figures) that say how fair it was.
    pub const P999: usize = 1;
    /// As [`P999`](Self::P999).
    pub const OVERTOOK: usize = 3;

    /// What [`figures`](Self::figures) are.
    #[must_use]
    pub fn columns() -> Vec<Column> {
        vec![
            Column::rate("grants a second"),
            Column::count("p99.9 of the waits / mean"),
            Column::count("longest wait / mean"),
            Column::new("overtook", Unit::Share, Better::Less),
        ]
    }

    /// As a slice gives them.
    #[must_use]
    pub fn figures(&self) -> Figures {
        vec![self.rate, self.p999, self.longest, self.overtook]
    }
}

/// When one asked, and when it was its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    asked: Instant,
    granted: Instant,
}

/// So many tasks take the one lock, hold it so long, or over one turn of the other tasks if that is no time, give it back
/// and ask again, for a while; who waits at the end waits to the end. The first wait of each task is for the start and does not count among the times.
///
/// # Errors
/// The side's.
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
    let (tasks, seconds) = crew((0..tasks).map(|_| task(lock.clone()))).await?;
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

/// How many were granted while one waited that had asked earlier.
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
        // Those who ask later stand in the map too, behind this one.
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
    fn in_line_nobody_overtakes() {
        assert_eq!(overtaken(&[(0, 10), (5, 20), (7, 30), (15, 40)]), 0);
    }

    #[test]
    fn who_asks_later_and_is_granted_first_overtakes() {
        assert_eq!(overtaken(&[(0, 40), (5, 20), (7, 30), (50, 60)]), 2);
    }

    #[test]
    fn who_asks_at_once_overtakes_nobody() {
        assert_eq!(overtaken(&[(0, 40), (1, 20)]), 0);
    }
}
