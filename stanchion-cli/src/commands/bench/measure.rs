//! The measures.

use std::mem::swap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stanchion::spi::clock;
use stanchion::{LimiterOptions, Mutex, MutexGuard, MutexOptions, Quota, Result, Store};

use super::times::Times;

/// Decisions a second that are not refused.
const MOST: u64 = 1_000_000;

/// Measures one call after the other until the time is over; one at least.
async fn repeated(time: Duration, mut call: impl AsyncFnMut() -> Result<()>) -> Result<Times> {
    let (start, mut times) = (now(), Vec::new());
    loop {
        let before = now();
        call().await?;
        times.push(before.elapsed());
        if start.elapsed() >= time {
            return Ok(Times::new(times, start.elapsed()));
        }
    }
}

pub(super) async fn pings(store: &dyn Store, time: Duration) -> Result<Times> {
    repeated(time, async || store.ping().await).await
}

pub(super) async fn alone(store: &dyn Store, name: &str, time: Duration) -> Result<Times> {
    let mutex = store.mutex(name, MutexOptions::new())?;
    repeated(time, async || mutex.lock().await?.release().await).await
}

pub(super) async fn decisions(store: &dyn Store, name: &str, time: Duration) -> Result<Times> {
    let quota = Quota::per_second(MOST).burst(MOST);
    let limiter = store.limiter(name, LimiterOptions::new(quota))?;
    repeated(time, async || limiter.allow().await.map(drop)).await
}

/// Measures from the moment at which one client releases to that at which the other, which waits,
/// holds.
pub(super) async fn hand_overs(stores: [&dyn Store; 2], name: &str, time: Duration) -> Result<Times> {
    let [first, second] = stores.map(|store| store.mutex(name, MutexOptions::new()));
    let (mut holder, mut waiter) = (first?, second?);
    let (start, mut times) = (now(), Vec::new());
    let mut guard = holder.lock().await?;
    loop {
        let mut waiting = pin!(taken(Arc::clone(&waiter)));
        tokio::select! {
            biased;
            queued = is_waited_for(&*holder) => queued?,
            // The hold was lost before anybody was seen to wait: that is no hand-over.
            (taken, _) = &mut waiting => {
                guard = taken?;
                swap(&mut holder, &mut waiter);
                continue;
            }
        }
        let before = now();
        let (released, (taken, at)) = tokio::join!(guard.release(), waiting);
        released?;
        guard = taken?;
        times.push(at.duration_since(before));
        swap(&mut holder, &mut waiter);
        if start.elapsed() >= time {
            guard.release().await?;
            return Ok(Times::new(times, start.elapsed()));
        }
    }
}

/// Waits for the turn; returns when it came.
async fn taken(mutex: Arc<dyn Mutex>) -> (Result<MutexGuard>, Instant) {
    let taken = mutex.lock().await;
    (taken, now())
}

async fn is_waited_for(mutex: &dyn Mutex) -> Result<()> {
    while mutex.inspect().await?.waiters == 0 {}
    Ok(())
}

fn now() -> Instant {
    clock::real().into_std()
}
