//! What the engine's thread does: renewals, releases, polls and wake-ups continue whatever the
//! caller's runtime does (C12, C13).

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::Result;
use crate::clock::{sleep, timeout};
use crate::engine::background::Background;
use crate::engine::keeping::renewal::renew_due;
use crate::engine::shared::Shared;
use crate::engine::timing::POLL_INTERVAL;
use crate::engine::waiting::asking::pass_over;
use crate::engine::waiting::questions::{poll, watch_groups};
use crate::runtime::thread::EngineThread;
use crate::spi::{Reports, Steps, WakeSource};
use crate::sync::caught;

/// Maximum time for the last releases once the last user of the engine has gone, if that did not
/// wait for longer.
const LAST_DRAIN: Duration = Duration::from_secs(2);

/// Gives a thread an engine. It ends when [`Shared::stop`] was called and the outbox is drained.
///
/// # Errors
/// `Unavailable` if the thread has ended.
pub(crate) fn begin(thread: &EngineThread, shared: Arc<Shared>, own: Background) -> Result<()> {
    thread.begin(async move {
        shared.begin_on_thread();
        if caught(run(&shared, &own)).await.is_none() {
            shared.containment.note_panic("the engine's thread");
            shared.close();
        }
    })
}

async fn run(shared: &Arc<Shared>, Background { steps, wake, chores, drain, .. }: &Background) {
    // Dropping it at the end ends the chores.
    let mut busy = JoinSet::new();
    for chore in chores {
        let (shared, chore) = (Arc::clone(shared), Arc::clone(chore));
        let reports = Reports(Arc::clone(&shared) as _);
        busy.spawn(async move { shared.containment.run_chore(chore, reports).await });
    }
    engine(shared, steps, wake.as_deref(), *drain).await;
}

/// `drain` is how long the last drop waits.
pub(crate) async fn engine(
    shared: &Arc<Shared>,
    steps: &Arc<dyn Steps>,
    wake: Option<&dyn WakeSource>,
    drain: Duration,
) {
    let work = async {
        tokio::join!(
            renew_due(shared, steps),
            poll(shared, steps),
            watch_groups(shared, steps),
            listen(shared, wake),
            pass_over(shared),
            close_after_panic(shared)
        );
    };
    let delivery = shared.outbox.deliver(steps);
    let mut delivery = std::pin::pin!(delivery);
    tokio::select! {
        () = &mut delivery => return,
        () = work => {}
        () = shared.stopped() => {}
    }
    // What is not delivered by then is left to its lease.
    let _ = timeout(LAST_DRAIN.max(drain), delivery).await;
}

/// Closes the store object once a step of the store has panicked (C27).
async fn close_after_panic(shared: &Shared) {
    shared.containment.panicked().await;
    shared.close();
}

/// Passes wake-ups on to the waiters.
async fn listen(shared: &Arc<Shared>, wake: Option<&dyn WakeSource>) {
    let Some(wake) = wake else { return std::future::pending().await };
    let reports = Reports(Arc::clone(shared) as _);
    loop {
        if shared.waiters.is_empty() && shared.group_waiters.is_empty() {
            tokio::select! {
                () = shared.waiters.to_listen.notified() => {}
                () = shared.group_waiters.to_listen.notified() => {}
            }
        }
        match wake.next().await {
            Ok(tickets) => {
                tickets.into_iter().for_each(|ticket| reports.wake(ticket));
            }
            Err(error) => {
                tracing::debug!(
                    stanchion.store = shared.store(),
                    error.type = error.kind().as_str(),
                    exception.message = ?error,
                    "no wake-ups for now, the poll floor serves"
                );
                sleep(POLL_INTERVAL).await;
            }
        }
    }
}
