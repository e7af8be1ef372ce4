//! The clauses of the wait group.

mod cancel;
mod members;
mod parameters;
mod waiting;

pub(crate) use cancel::*;
pub(crate) use members::*;
pub(crate) use parameters::*;
pub(crate) use waiting::*;

use std::sync::Arc;

use stanchion_core::{HoldOptions, WaitGroup, WaitGroupOptions};

use crate::harness::Harness;

/// Opens a wait group with a new client, like another process.
async fn client(h: &dyn Harness, name: &str, limit: Option<u32>, hold: HoldOptions) -> Arc<dyn WaitGroup> {
    let mut options = WaitGroupOptions::default();
    options.limit = limit;
    options.hold = hold;
    h.store().await.wait_group(name, options).expect("a wait group")
}

/// Opens a group without a limit and with the default options.
async fn default_group(h: &dyn Harness, name: &str) -> Arc<dyn WaitGroup> {
    client(h, name, None, HoldOptions::default()).await
}

/// Waits until this number of adds queue.
async fn queue_of(group: &dyn WaitGroup, waiters: u64) {
    let what = format!("a queue of {waiters}");
    crate::support::eventually(std::time::Duration::from_secs(5), &what, || async {
        group.inspect().await.expect("inspect").waiters == waiters
    })
    .await;
}
