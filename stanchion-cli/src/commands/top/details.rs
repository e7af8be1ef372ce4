//! One name: its holders, and the end of one by force.

use stanchion::{Holder, Kind, MutexOptions, Result, SemaphoreOptions, Store, Ticket, WaitGroupOptions};

use super::snapshot::Key;
use crate::values::label_of;

/// A hold that the user wants to be freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) key: Key,
    /// `None` where the store does not know it.
    pub(super) ticket: Option<Ticket>,
}

/// Asks who holds a name.
pub(super) async fn holders(store: &dyn Store, (kind, name): &Key) -> Result<Vec<Holder>> {
    Ok(match kind {
        Kind::Mutex => store.mutex(name, MutexOptions::new())?.inspect().await?.holders,
        Kind::Semaphore => store.semaphore(name, SemaphoreOptions::new(1))?.inspect().await?.holders,
        Kind::WaitGroup => store.wait_group(name, WaitGroupOptions::new())?.inspect().await?.holders,
        _ => Vec::new(),
    })
}

/// Frees a hold; returns what became of it.
pub(super) async fn free(store: &dyn Store, hold: &Hold) -> String {
    let name = &hold.key.1;
    match freed(store, hold).await {
        Ok(true) => format!("freed {name:?}"),
        Ok(false) => format!("{name:?} is not held by that holder any more"),
        Err(error) => format!("{name:?} was not freed: {error}"),
    }
}

async fn freed(store: &dyn Store, hold: &Hold) -> Result<bool> {
    let (kind, name) = &hold.key;
    let label = label_of(&std::env::var("USER").unwrap_or_default());
    match (kind, hold.ticket) {
        (Kind::Mutex, ticket) => {
            let mutex = store.mutex(name, MutexOptions::new().label(label))?;
            // The question may have been answered late: another holder is not meant.
            let now = mutex.inspect().await?.holders.first().and_then(|holder| holder.ticket);
            if now == ticket { mutex.force_unlock().await } else { Ok(false) }
        }
        (Kind::Semaphore, Some(ticket)) => {
            let semaphore = store.semaphore(name, SemaphoreOptions::new(1).label(label))?;
            semaphore.force_release(ticket).await
        }
        _ => Ok(false),
    }
}
