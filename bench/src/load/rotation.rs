//! A lock that goes from task to task.

use std::time::Duration;

use crate::Failure;
use crate::figure::whole;
use crate::load::tasks::{clock, repeat, run_tasks};
use crate::lock::Lock;

/// Lets each task take the one lock and hold it over one yield to the other tasks, so that all of
/// them queue. Returns the hand-offs a second.
///
/// # Errors
/// The errors of the side.
pub async fn rotation<L: Lock>(lock: &L, tasks: usize, time: Duration) -> Result<f64, Failure> {
    let end = clock() + time;
    let task = |lock: L| async move {
        repeat(end, 16, || async {
            let held = lock.lock().await?;
            tokio::task::yield_now().await;
            lock.release(held).await
        })
        .await
    };
    let (tasks, seconds) = run_tasks((0..tasks).map(|_| task(lock.clone()))).await?;
    Ok(whole(tasks.iter().map(|(count, _)| count).sum()) / seconds)
}
