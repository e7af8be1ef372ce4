//! The calls that are measured, each uncontended and on a store that is warm.

use std::path::Path;
use std::time::Duration;

use stanchion_core::{LimiterOptions, MutexOptions, Quota, Store};
use stanchion_redis::RedisStore;

use crate::Failure;
use crate::allocator::{count, stacks_of};
use crate::by_hand::ByHand;
use crate::path::CallPath;

/// Calls before the measured ones: connections are open then, and scripts are loaded.
const WARM_UP: usize = 50;
/// Pairs of which the allocations are counted.
const PAIRS: usize = 2_000;
const WAIT: Duration = Duration::from_secs(5);

pub(crate) async fn print_paths(url: &str, show: bool) -> Result<(), Failure> {
    let store = RedisStore::builder(url)?.connect().await?;
    let mutex = store.mutex("m", MutexOptions::new())?;
    let limiter = store.limiter("l", LimiterOptions::new(Quota::per_second(1_000_000)))?;
    for _ in 0..WARM_UP {
        mutex.lock_for(WAIT).await?.ok_or("the mutex is not free")?.release().await?;
        limiter.allow().await?;
    }
    println!("{:<10} {:>6} {:>6} {:>6} {:>8}", "call", "frames", "files", "moves", "returns");
    let (guard, stacks) = stacks_of(mutex.lock_for(WAIT)).await;
    print_path("lock_for", &stacks, show)?;
    let guard = guard?.ok_or("the mutex is not free")?;
    let (released, stacks) = stacks_of(guard.release()).await;
    print_path("release", &stacks, show)?;
    released?;
    let (decided, stacks) = stacks_of(limiter.allow()).await;
    print_path("allow", &stacks, show)?;
    decided?;
    Ok(store.close().await?)
}

fn print_path(call: &str, stacks: &[std::backtrace::Backtrace], show: bool) -> Result<(), Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).ok_or("a workspace")?;
    let path = CallPath::of_first(stacks, root).ok_or("the client library was not seen on any stack")?;
    let (frames, files) = (path.frames(), path.files());
    println!("{call:<10} {frames:>6} {files:>6} {:>6} {:>8}", path.moves(), path.returns());
    for frame in path.0.iter().rev().filter(|_| show) {
        println!("    {:<45} {}", frame.file.as_deref().unwrap_or_default(), frame.function);
    }
    Ok(())
}

pub(crate) async fn print_allocations(url: &str) -> Result<(), Failure> {
    let store = RedisStore::builder(url)?.connect().await?;
    let mutex = store.mutex("m", MutexOptions::new())?;
    let by_hand = ByHand::connect(url).await?;
    let own = async || -> Result<(), Failure> {
        let guard = mutex.lock_for(WAIT).await?.ok_or("the mutex is not free")?;
        Ok(guard.release().await?)
    };
    let own = allocations(own).await?;
    let by_hand = allocations(async || by_hand.pair().await).await?;
    println!("allocations of a lock and its release: {own}, by hand {by_hand}");
    Ok(store.close().await?)
}

/// Returns the rounded number of allocations of one pair. It is a mean, so that what the engine
/// does now and then does not count.
async fn allocations(pair: impl AsyncFn() -> Result<(), Failure>) -> Result<usize, Failure> {
    for _ in 0..WARM_UP {
        pair().await?;
    }
    let before = count();
    for _ in 0..PAIRS {
        pair().await?;
    }
    Ok((count() - before + PAIRS / 2) / PAIRS)
}
