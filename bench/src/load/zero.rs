//! From the end of a group's last member to those who wait for it.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::WaitGroup;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Failure;
use crate::figure::quantile;
use crate::load::HandOff;
use crate::load::crew::{LIMIT, clock};

/// The title of that measure.
pub const ZERO: &str = "Wait group, from its end to its waiters";
/// What is measured of a group's end.
pub const AT_ZERO: &str = "From the start of the last member's `done` by one client to the return of the last of twenty \
                           waiters of two clients.";

/// How many wait by each client.
const WAITERS: usize = 10;
/// How long they wait before the member ends: longer than any of them needs until it is known to wait.
const WATCHING: Duration = Duration::from_millis(20);

/// Two clients with ten waiters each: from the start of the last member's `done` to the return of the last waiter.
///
/// # Errors
/// The store's, and if it does not end.
pub async fn at_zero(groups: &[Arc<dyn WaitGroup>; 2], time: Duration) -> Result<HandOff, Failure> {
    let ending = tokio::time::timeout(LIMIT, end(groups, time));
    let mut times = ending.await.map_err(|_| format!("it did not end within {LIMIT:?}"))??;
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
