//! Whether the user may do what programs do.

use stanchion::{
    LimiterOptions, MutexMode, MutexOptions, Quota, Result, SemaphoreOptions, Store, StoreExt as _, Ticket,
    WaitGroupOptions,
};

use super::Verdict;

/// Has the store run steps on a random name, which nobody else uses: looks, and the end of a hold
/// that is not there, none of which leaves anything; and, if `writes`, grants and their ends.
pub(super) async fn tried(store: &dyn Store, writes: bool) -> Result<()> {
    let name = format!("stanchion check {}", Ticket::random());
    look(store, &name).await?;
    if writes { take(store, &name).await } else { Ok(()) }
}

/// Returns the verdict where all steps were run.
pub(super) fn are_there(writes: bool) -> Verdict {
    let detail = match writes {
        true => "one of each kind was taken and given back",
        false => "the steps of each kind can be run; --write tries what they write as well",
    };
    Verdict { what: "rights", word: "ok", detail: detail.to_owned() }
}

async fn look(store: &dyn Store, name: &str) -> Result<()> {
    for kind in [stanchion::Kind::Mutex, stanchion::Kind::Semaphore, stanchion::Kind::WaitGroup] {
        store.inspect(kind, name).await?;
    }
    let semaphore = store.semaphore(name, SemaphoreOptions::new(1))?;
    semaphore.force_release(Ticket::random()).await?;
    if store.capabilities().mutex_mode == MutexMode::Lease {
        store.mutex(name, MutexOptions::new())?.force_unlock().await?;
    }
    let limiter = store.limiter(name, LimiterOptions::new(Quota::per_second(1)))?;
    limiter.peek().await.map(drop)
}

async fn take(store: &dyn Store, name: &str) -> Result<()> {
    if let Some(guard) = store.mutex(name, MutexOptions::new())?.try_lock().await? {
        guard.release().await?;
    }
    if let Some(permit) = store.semaphore(name, SemaphoreOptions::new(1))?.try_acquire().await? {
        permit.release().await?;
    }
    store.wait_group(name, WaitGroupOptions::new())?.add().await?.release().await?;
    store.limiter(name, LimiterOptions::new(Quota::per_second(1)))?.allow().await.map(drop)
}
