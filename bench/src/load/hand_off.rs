//! From one holder to the next.

use std::time::Duration;

use tokio::time::sleep;

use crate::Failure;
use crate::figure::{Column, quantile};
use crate::load::crew::{LIMIT, clock};
use crate::lock::Lock;
use crate::measure::Figures;
use crate::target::{Against, Bound, Target};

/// How long the next one waits before it is its turn: longer than any side needs until it stands in line.
const IN_LINE: Duration = Duration::from_millis(5);

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct HandOff {
    /// The median, in seconds.
    pub p50: f64,
    /// What all but a hundredth did not need, in seconds.
    pub p99: f64,
}

impl HandOff {
    /// What [`figures`](Self::figures) are.
    #[must_use]
    pub fn columns() -> Vec<Column> {
        vec![Column::time("p50"), Column::time("p99")]
    }

    /// What the contract wants of a hand-over on loopback (M6): 5 ms in the median, and 50 ms but for a hundredth.
    #[must_use]
    pub fn targets(side: &str) -> [Target; 2] {
        [(0, 0.005), (1, 0.050)].map(|(column, seconds)| {
            Target::new(side, Against::Nothing, Bound::AtMost(seconds)).column(column)
        })
    }

    /// What it wants of those who wait for a group's end where wake-ups arrive (W3): 50 ms.
    #[must_use]
    pub fn target_at_zero(side: &str) -> Target {
        Target::new(side, Against::Nothing, Bound::AtMost(0.050)).column(1)
    }

    /// As a slice gives them.
    #[must_use]
    pub fn figures(&self) -> Figures {
        vec![self.p50, self.p99]
    }
}

/// Two clients have the lock in turn: from the start of the release by one to the grant to the other, who has stood in
/// line for 5 ms.
///
/// # Errors
/// The side's, and if it does not end.
pub async fn hand_off<L: Lock>(pair: &[L; 2], time: Duration) -> Result<HandOff, Failure> {
    let passing = tokio::time::timeout(LIMIT, pass(pair, time));
    let mut times = passing.await.map_err(|_| format!("it did not end within {LIMIT:?}"))??;
    Ok(HandOff { p50: quantile(&mut times, 0.5), p99: quantile(&mut times, 0.99) })
}

async fn pass<L: Lock>(pair: &[L; 2], time: Duration) -> Result<Vec<f64>, Failure> {
    let end = clock() + time;
    let mut times = Vec::new();
    let [mut holder, mut next] = [&pair[0], &pair[1]];
    let mut held = holder.lock().await?;
    while clock() < end {
        let waiting = async {
            let held = next.lock().await?;
            Ok::<_, Failure>((held, clock()))
        };
        let passing = async {
            sleep(IN_LINE).await;
            let begin = clock();
            holder.release(held).await?;
            Ok::<_, Failure>(begin)
        };
        let ((granted, at), begin) = tokio::try_join!(waiting, passing)?;
        times.push(at.saturating_duration_since(begin).as_secs_f64());
        held = granted;
        std::mem::swap(&mut holder, &mut next);
    }
    holder.release(held).await?;
    Ok(times)
}
