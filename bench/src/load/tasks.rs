//! Concurrent tasks, and the time they take.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Failure;

/// Timeout for a slice, which may run beyond its time while tasks still wait.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs tasks until all of them have ended, for at most [`TIMEOUT`]; returns their results and the
/// seconds it took.
pub(super) async fn run_tasks<T, F>(tasks: impl Iterator<Item = F>) -> Result<(Vec<T>, f64), Failure>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let begin = clock();
    let mut running: JoinSet<_> = tasks.collect();
    let mut all = Vec::new();
    let end = async {
        while let Some(one) = running.join_next().await {
            all.push(one??);
        }
        Ok::<_, Failure>(())
    };
    tokio::time::timeout(TIMEOUT, end).await.map_err(|_| format!("it did not end within {TIMEOUT:?}"))??;
    Ok((all, begin.elapsed().as_secs_f64()))
}

/// Reads the monotonic clock.
#[must_use]
pub fn clock() -> Instant {
    Instant::now()
}

/// Repeats `one` until `end`, and reads the clock after every batch. Returns the number of
/// repetitions, and the mean time of one in each batch. Yields between batches of more than one,
/// because a task that never waits would not let other tasks run.
pub(super) async fn repeat<F>(
    end: Instant,
    batch: usize,
    mut one: impl FnMut() -> F,
) -> Result<(usize, Vec<f64>), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let (mut count, mut times) = (0, Vec::new());
    loop {
        let begin = clock();
        if begin >= end {
            return Ok((count, times));
        }
        for _ in 0..batch {
            one().await?;
        }
        times.push(begin.elapsed().as_secs_f64() / crate::figure::whole(batch));
        count += batch;
        if batch > 1 {
            tokio::task::yield_now().await;
        }
    }
}
