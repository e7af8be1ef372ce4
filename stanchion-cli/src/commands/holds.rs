//! The holds of a name: a look at them, and the end of one by force.

use stanchion::{Inspection, Kind, MutexOptions, Result, SemaphoreOptions, Store, Ticket, WaitGroupOptions};

/// Looks at an object that has holders; at any other, nothing is seen. Parameters of the handle are neither compared nor stored by
/// this.
pub(crate) async fn look(store: &dyn Store, kind: Kind, name: &str) -> Result<Inspection> {
    match kind {
        Kind::Mutex => store.mutex(name, MutexOptions::new())?.inspect().await,
        Kind::Semaphore => store.semaphore(name, SemaphoreOptions::new(1))?.inspect().await,
        Kind::WaitGroup => store.wait_group(name, WaitGroupOptions::new())?.inspect().await,
        _ => Ok(Inspection::default()),
    }
}

/// Frees the hold of a mutex or a semaphore that was seen with this ticket, `None` where the store does not know it. Returns whether
/// it was freed. `label` says who does it.
///
/// Of a mutex the ticket is compared just before: whoever is to decide may take his time, and another holder is not meant. A holder
/// that releases in between, and another that begins, are not told apart.
pub(crate) async fn free(
    store: &dyn Store,
    (kind, name): (Kind, &str),
    ticket: Option<Ticket>,
    label: String,
) -> Result<bool> {
    match (kind, ticket) {
        (Kind::Mutex, _) => {
            let mutex = store.mutex(name, MutexOptions::new().label(label))?;
            let now = mutex.inspect().await?.holders.first().map(|holder| holder.ticket);
            if now == Some(ticket) { mutex.force_unlock().await } else { Ok(false) }
        }
        (Kind::Semaphore, Some(ticket)) => {
            let semaphore = store.semaphore(name, SemaphoreOptions::new(1).label(label))?;
            semaphore.force_release(ticket).await
        }
        _ => Ok(false),
    }
}
