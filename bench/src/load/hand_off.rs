//! Hand-offs from one holder to the next.

use std::time::Duration;

use tokio::time::sleep;

use crate::Failure;
use crate::figure::{Column, quantile};
use crate::load::tasks::{TIMEOUT, clock};
use crate::lock::Lock;
use crate::measure::Figures;
use crate::target::{Against, Bound, Target};

/// Time that the next holder waits before the release: longer than any side needs to queue it.
const IN_LINE: Duration = Duration::from_millis(5);

/// The results of hand-offs.
#[derive(Clone, Copy, Debug)]
pub struct HandOff {
    /// The median, in seconds.
    pub p50: f64,
    /// The 99th percentile, in seconds.
    pub p99: f64,
}

impl HandOff {
    /// Returns the columns of [`figures`](Self::figures).
    #[must_use]
    pub fn columns() -> Vec<Column> {
        vec![Column::time("p50"), Column::time("p99")]
    }

    /// Returns the targets of the contract for a hand-off on loopback (M6): 5 ms in the median, and
    /// 50 ms in the 99th percentile.
    #[must_use]
    pub fn targets(side: &str) -> [Target; 2] {
        [(0, 0.005), (1, 0.050)].map(|(column, seconds)| {
            Target::new(side, Against::Nothing, Bound::AtMost(seconds)).column(column)
        })
    }

    /// Returns the target for waiters of a group's end where wake-ups arrive (W3): 50 ms.
    #[must_use]
    pub fn target_at_zero(side: &str) -> Target {
        Target::new(side, Against::Nothing, Bound::AtMost(0.050)).column(1)
    }

    /// Returns the figures of a slice.
    #[must_use]
    pub fn figures(&self) -> Figures {
        vec![self.p50, self.p99]
    }
}

/// Passes the lock between two clients. Measures from the start of the release by one client to the
/// grant to the other, which has been queued for 5 ms.
///
/// # Errors
/// The errors of the side, and an error if the load does not end within [`TIMEOUT`].
pub async fn hand_off<L: Lock>(pair: &[L; 2], time: Duration) -> Result<HandOff, Failure> {
    let passing = tokio::time::timeout(TIMEOUT, pass(pair, time));
    let mut times = passing.await.map_err(|_| format!("it did not end within {TIMEOUT:?}"))??;
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
