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
use crate::engine::timing::{POLL_INTERVAL, engine_now as now};
use crate::engine::waiting::questions::{poll, watch_groups};
use crate::engine::waiting::waiters::MIN_PATIENCE;
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

/// Takes acquisitions over that keep others waiting although nobody polls them (C6): what they have
/// at the store is freed.
async fn pass_over(shared: &Shared) {
    loop {
        shared.waiters.to_pass_over.notified().await;
        let mut pause = MIN_PATIENCE;
        loop {
            let planned = now() + pause;
            sleep(pause).await;
            let at = now();
            if at > planned + MIN_PATIENCE {
                // The process, or the machine, stood still: callers have their time now.
                pause = MIN_PATIENCE;
                continue;
            }
            let (unpolled, next) = shared.waiters.take_unpolled(at, |leftover| shared.free(leftover));
            for leftover in &unpolled {
                tracing::debug!(
                    stanchion.store = shared.store(),
                    stanchion.kind = leftover.object.kind.as_str(),
                    stanchion.name = leftover.object.name.as_str(),
                    stanchion.ticket = %leftover.ticket,
                    "nobody polls a call whose turn it is: it is passed over"
                );
            }
            let Some(next) = next else { break };
            pause = next.saturating_duration_since(at).min(MIN_PATIENCE);
        }
    }
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
