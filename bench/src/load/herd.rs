//! Many waiters that one step lets in together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use stanchion_core::{MutexOptions, OnMismatch, SemaphoreOptions, Store, WaitGroupOptions};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::Failure;
use crate::bench::Bench;
use crate::figure::{Column, whole};
use crate::load::hand_off::hand_off;
use crate::load::tasks::{TIMEOUT, clock};
use crate::measure::{Figures, Measure, Role};
use crate::target::{Against, Bound, Target};

/// What lets the waiters in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Herd {
    /// The holder of all permits releases them.
    Release,
    /// The holder of all permits releases them, and in the middle of the queue stands a waiter that
    /// wants all of them; each gives its permits back at once.
    Heavy,
    /// The limit grows.
    Resize,
    /// The members of a full wait group are done.
    Group,
}

/// How many wait, in how many processes, and what lets them in.
const SIDES: [(&str, Herd, usize, usize); 7] = [
    ("1,000 in one process", Herd::Release, 1_000, 1),
    ("1,000 in ten", Herd::Release, 1_000, 10),
    ("4,000 in ten", Herd::Release, 4_000, 10),
    ("1,000 in ten, one of them heavy", Herd::Heavy, 1_000, 10),
    ("resize, 1,000 in ten", Herd::Resize, 1_000, 10),
    ("resize, 4,000 in ten", Herd::Resize, 4_000, 10),
    ("group, 1,000 in ten", Herd::Group, 1_000, 10),
];

/// Most seconds until the last one of 1,000, of 4,000, and of 1,000 with a heavy one among them.
pub type Limits = [f64; 3];

/// Measures how long it takes until the last one is in, in `rounds` rounds. `open` opens a store,
/// as another process would, and `requests` counts what was sent to the server.
///
/// # Errors
/// The errors of `open`.
pub fn herds(
    bench: &mut Bench,
    how: &str,
    limits: Limits,
    rounds: usize,
    runtime: &tokio::runtime::Runtime,
    open: impl Fn() -> Result<Arc<dyn Store>, Failure>,
    requests: impl AsyncFn() -> Result<f64, Failure>,
) -> Result<(), Failure> {
    let about = format!(
        "That many tasks wait for a permit, or to join a group, when one step lets all of them in{how}: \
         until the last one is in. Beside them two tasks pass a mutex on."
    );
    let columns =
        [Column::time("last one in"), Column::count("requests a grant"), Column::time("p99 of the others")];
    if !bench.wants("herd") {
        return Ok(());
    }
    let stores = (0..10).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
    let (stores, requests) = (&stores, &requests);
    let mut measure = Measure::new("herd", "Many let in together", &about, columns.to_vec());
    for (name, herd, waiters, processes) in SIDES {
        let limit = if herd == Herd::Heavy { limits[2] } else { limits[usize::from(waiters > 1_000)] };
        measure = measure
            .side(name, Role::Ours, move || {
                runtime.block_on(run(herd, &stores[..processes], waiters, requests))
            })
            .target(Target::new(name, Against::Nothing, Bound::AtMost(limit)))
            .target(Target::new(name, Against::Nothing, Bound::AtMost(0.020)).column(2));
    }
    bench.run(measure, rounds);
    Ok(())
}

/// What waits: tasks that say when they were let in.
type Waiting = JoinSet<Result<(Instant, Option<Box<dyn Send>>), Failure>>;

#[expect(clippy::future_not_send, reason = "it is driven by the thread that made it")]
async fn run(
    herd: Herd,
    stores: &[Arc<dyn Store>],
    waiters: usize,
    requests: impl AsyncFn() -> Result<f64, Failure>,
) -> Result<Figures, Failure> {
    static NAMES: AtomicUsize = AtomicUsize::new(0);
    let name = format!("herd-{}", NAMES.fetch_add(1, Ordering::Relaxed));
    let mut waiting = Waiting::new();
    let others = stores[0].mutex(&format!("{name}-others"), MutexOptions::default())?;
    let pair = [Arc::clone(&others), others];
    let passing = |time| hand_off(&pair, time);
    passing(Duration::from_millis(20)).await?;
    let all = u32::try_from(waiters)?;
    let (begin, before) = match herd {
        Herd::Group => {
            let options = || WaitGroupOptions::default().limit(all);
            let group = stores[0].wait_group(&name, options())?;
            let members = group.add_many(all).await?;
            for index in 0..waiters {
                let group = stores[index % stores.len()].wait_group(&name, options())?;
                waiting.spawn(async move {
                    let member = group.add().await?;
                    Ok((clock(), Some(Box::new(member) as Box<dyn Send>)))
                });
            }
            queued(waiters, async || Ok(group.inspect().await?.waiters)).await?;
            let (begin, before) = (clock(), requests().await?);
            let mut ending = JoinSet::new();
            for member in members {
                ending.spawn(member.done());
            }
            while let Some(ended) = ending.join_next().await {
                ended??;
            }
            (begin, before)
        }
        _ => {
            let limit = if herd == Herd::Resize { 1 } else { all };
            let options = || SemaphoreOptions::new(limit).on_mismatch(OnMismatch::Adopt);
            let semaphore = stores[0].semaphore(&name, options())?;
            let held = semaphore.acquire_many(limit).await?;
            for index in 0..waiters {
                let semaphore = stores[index % stores.len()].semaphore(&name, options())?;
                let is_heavy = herd == Herd::Heavy && index == waiters / 2;
                waiting.spawn(async move {
                    let permit = semaphore.acquire_many(if is_heavy { limit } else { 1 }).await?;
                    let at = clock();
                    if herd == Herd::Heavy {
                        permit.release().await?;
                        return Ok((at, None));
                    }
                    Ok((at, Some(Box::new(permit) as Box<dyn Send>)))
                });
                if is_heavy || index + 1 == waiters / 2 {
                    queued(index + 1, async || Ok(semaphore_waiters(&stores[0], &name, options()).await?))
                        .await?;
                }
            }
            queued(waiters, async || Ok(semaphore.inspect().await?.waiters)).await?;
            let (begin, before) = (clock(), requests().await?);
            if herd == Herd::Resize {
                semaphore.resize(all + 1).await?;
                // It was in before all others.
                waiting.spawn(std::future::ready(Ok((begin, Some(Box::new(held) as Box<dyn Send>)))));
            } else {
                held.release().await?;
            }
            (begin, before)
        }
    };
    let mut last = begin;
    let mut guards = Vec::new();
    let coming = async {
        while let Some(one) = waiting.join_next().await {
            let (at, guard) = one??;
            last = last.max(at);
            guards.push(guard);
        }
        requests().await
    };
    let coming = async { timeout(TIMEOUT, coming).await.map_err(|_| format!("not in within {TIMEOUT:?}"))? };
    let (after, others) = tokio::try_join!(coming, passing(Duration::from_millis(250)))?;
    drop(guards);
    for store in stores {
        store.drain().await?;
    }
    let time = last.saturating_duration_since(begin).as_secs_f64();
    Ok(vec![time, (after - before) / whole(waiters), others.p99])
}

async fn semaphore_waiters(
    store: &Arc<dyn Store>,
    name: &str,
    options: SemaphoreOptions,
) -> Result<u64, Failure> {
    Ok(store.semaphore(name, options)?.inspect().await?.waiters)
}

/// Waits until that many are in the queue.
async fn queued(count: usize, waiters: impl AsyncFn() -> Result<u64, Failure>) -> Result<(), Failure> {
    while waiters().await? < u64::try_from(count)? {
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
