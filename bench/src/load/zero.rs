//! From the end of a group's last member to the return of its waiters.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::WaitGroup;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Failure;
use crate::figure::quantile;
use crate::load::HandOff;
use crate::load::tasks::{TIMEOUT, clock};

/// The title of the measure.
pub const ZERO: &str = "Wait group, from its end to its waiters";
/// The description of the measure.
pub const AT_ZERO: &str = "From the start of the last member's `done` by one client to the return of the last of \
    twenty waiters of two clients.";

/// Number of waiters of each client.
const WAITERS: usize = 10;
/// Time that they wait before the member ends: longer than any of them needs to be registered.
const WATCHING: Duration = Duration::from_millis(20);

/// Measures two clients with ten waiters each, from the start of the last member's `done` to the
/// return of the last waiter.
///
/// # Errors
/// The errors of the store, and an error if the load does not end within [`TIMEOUT`].
pub async fn at_zero(groups: &[Arc<dyn WaitGroup>; 2], time: Duration) -> Result<HandOff, Failure> {
    let ending = tokio::time::timeout(TIMEOUT, end(groups, time));
    let mut times = ending.await.map_err(|_| format!("it did not end within {TIMEOUT:?}"))??;
    Ok(HandOff { p50: quantile(&mut times, 0.5), p99: quantile(&mut times, 0.99) })
}

async fn end(groups: &[Arc<dyn WaitGroup>; 2], time: Duration) -> Result<Vec<f64>, Failure> {
    let end = clock() + time;
    let mut times = Vec::new();
    while clock() < end {
        let member = groups[0].add().await?;
        let mut waiters = JoinSet::new();
        for number in 0..2 * WAITERS {
            let group = Arc::clone(&groups[number % 2]);
            waiters.spawn(async move { group.wait().await });
        }
        sleep(WATCHING).await;
        let begin = clock();
        member.done().await?;
        while let Some(waited) = waiters.join_next().await {
            waited??;
        }
        times.push(begin.elapsed().as_secs_f64());
    }
    Ok(times)
}
