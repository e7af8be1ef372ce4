//! Tasks that run side by side, and the time they take.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Failure;

/// The longest that a slice may take beyond its time, for those that are still waiting.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Runs tasks until all of them have ended, for [`LIMIT`] at most; gives what they give, and how long it took.
pub(super) async fn crew<T, F>(tasks: impl Iterator<Item = F>) -> Result<(Vec<T>, f64), Failure>
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
    tokio::time::timeout(LIMIT, end).await.map_err(|_| format!("it did not end within {LIMIT:?}"))??;
    Ok((all, begin.elapsed().as_secs_f64()))
}

/// Now.
#[must_use]
pub fn clock() -> Instant {
    Instant::now()
}

/// Repeats something until that time, with a look at the clock after every batch; gives how
/// many there were and how long each took, as the mean of its batch. Between two batches others have their turn: who never
/// has to wait would not let them.
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
