//! A lock that goes round.

use std::time::Duration;

use crate::Failure;
use crate::figure::whole;
use crate::load::crew::{clock, crew, repeat};
use crate::lock::Lock;

/// Each task takes the one lock and holds it over one turn of the others, so that all of them queue. Hand-offs a
/// second.
///
/// # Errors
/// The side's.
pub async fn turns<L: Lock>(lock: &L, tasks: usize, time: Duration) -> Result<f64, Failure> {
    let end = clock() + time;
    let task = |lock: L| async move {
        repeat(end, 16, || async {
            let held = lock.lock().await?;
            tokio::task::yield_now().await;
            lock.release(held).await
        })
        .await
    };
    let (tasks, seconds) = crew((0..tasks).map(|_| task(lock.clone()))).await?;
    Ok(whole(tasks.iter().map(|(count, _)| count).sum()) / seconds)
}
