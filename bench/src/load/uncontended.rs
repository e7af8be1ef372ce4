//! Locks that nobody else wants.

use std::time::Duration;

use crate::Failure;
use crate::figure::whole;
use crate::load::crew::{clock, crew, repeat};
use crate::load::pace::Pace;
use crate::lock::Lock;

/// Every lock has a task of its own that takes it and gives it back, for a while. The clock is read once for each
/// batch of pairs, which then counts as one time: for pairs that take less than a look at the clock.
///
/// # Errors
/// The side's.
pub async fn uncontended<L: Lock>(locks: &[L], time: Duration, batch: usize) -> Result<Pace, Failure> {
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
    Ok(Pace::of(pairs, seconds, &mut times))
}
