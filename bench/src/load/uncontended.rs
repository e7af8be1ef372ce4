//! Uncontended locks.

use std::time::Duration;

use crate::Failure;
use crate::figure::whole;
use crate::load::pace::Pace;
use crate::load::tasks::{clock, repeat, run_tasks};
use crate::lock::Lock;

/// Runs one task for each lock, which acquires and releases it for `time`. The clock is read once
/// for each batch of pairs, which then counts as one time: some pairs take less time than reading
/// the clock.
///
/// # Errors
/// The errors of the side.
pub async fn uncontended<L: Lock>(locks: &[L], time: Duration, batch: usize) -> Result<Pace, Failure> {
    let end = clock() + time;
    let task = |lock: L| async move {
        repeat(end, batch, || async {
            let held = lock.lock().await?;
            lock.release(held).await
        })
        .await
    };
    let (tasks, seconds) = run_tasks(locks.iter().cloned().map(task)).await?;
    let pairs = whole(tasks.iter().map(|(pairs, _)| pairs).sum());
    let mut times: Vec<f64> = tasks.into_iter().flat_map(|(_, times)| times).collect();
    Ok(Pace::of(pairs, seconds, &mut times))
}
