//! The clauses of the semaphore.

mod cancel;
mod conservation;
mod limit;
mod order;
mod parameters;

pub(crate) use cancel::*;
pub(crate) use conservation::*;
pub(crate) use limit::*;
pub(crate) use order::*;
pub(crate) use parameters::*;

use std::sync::Arc;

use stanchion_core::{HoldOptions, Semaphore, SemaphoreOptions};

use crate::harness::Harness;

/// Opens a semaphore with a new client, like another process.
async fn client(h: &dyn Harness, name: &str, permits: u32, hold: HoldOptions) -> Arc<dyn Semaphore> {
    let mut options = SemaphoreOptions::new(permits);
    options.hold = hold;
    h.store().await.semaphore(name, options).expect("a semaphore")
}

/// Waits until this number of acquisitions queue.
async fn queue_of(semaphore: &dyn Semaphore, waiters: u64) {
    let what = format!("a queue of {waiters}");
    crate::support::eventually(std::time::Duration::from_secs(5), &what, || async {
        semaphore.inspect().await.expect("inspect").waiters == waiters
    })
    .await;
}
