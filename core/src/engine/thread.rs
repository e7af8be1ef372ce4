//! The engine's thread: renewals, releases, polls and wake-ups continue whatever the caller's runtime does (C12, C13).

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::clock::{now, sleep};
use crate::engine::background::Background;
use crate::engine::keeping::renewal::renew_due;
use crate::engine::shared::Shared;
use crate::engine::timing::{AFTER_EXPIRY, POLL_INTERVAL, sleep_until_some};
use crate::steps::{GroupSteps, Look, PermitSteps, Reports, Steps, WakeSource};
use crate::{Error, ErrorKind, Result, Ttl};

/// Delay between the arrival of the first waiter and the first poll, so that the poll includes the next arrivals.
const FIRST_POLL: Duration = Duration::from_millis(50);
/// Maximum number of objects in one step call.
const BATCH: usize = 500;
/// Maximum time for the last releases once the last user of the engine has gone.
const LAST_DRAIN: Duration = Duration::from_secs(2);

/// Starts the thread. It ends when [`Shared::stop`] was called and the outbox is drained.
///
/// # Errors
/// `Unavailable` if the system has no thread or no runtime to give.
#[expect(clippy::disallowed_methods, reason = "the engine's thread owns its runtime")]
pub(crate) fn start(shared: Arc<Shared>, own: Background) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Error::new(ErrorKind::Unavailable, "no runtime for the engine").with_source(error)
    })?;
    std::thread::Builder::new()
        .name("stanchion".into())
        .spawn(move || {
            shared.begin_on_thread();
            runtime.block_on(run(&shared, &own));
        })
        .map_err(|error| Error::new(ErrorKind::Unavailable, "no thread for the engine").with_source(error))?;
    Ok(())
}

async fn run(shared: &Arc<Shared>, Background { steps, wake, chores, .. }: &Background) {
    // Dropping it at the end ends the chores.
    let mut busy = JoinSet::new();
    for chore in chores {
        let (chore, reports) = (Arc::clone(chore), Reports(Arc::clone(shared) as _));
        busy.spawn(async move { chore.run(&reports).await });
    }
    engine(shared, steps, wake.as_deref()).await;
}

pub(crate) async fn engine(shared: &Arc<Shared>, steps: &Steps, wake: Option<&dyn WakeSource>) {
    let work = async {
        tokio::join!(
            renew_due(shared, steps),
            poll(shared, steps.permits.as_ref()),
            watch_groups(shared, steps.groups.as_deref()),
            listen(shared, wake)
        );
    };
    let delivery = shared.outbox.deliver(steps);
    let mut delivery = std::pin::pin!(delivery);
    tokio::select! {
        () = &mut delivery => return,
        () = work => {}
        () = shared.stopped() => {}
    }
    drop(timeout(LAST_DRAIN, delivery).await);
}

/// Polls the store about all objects that callers wait for (the poll floor of C14). A poll also keeps the waiters live
/// (C16).
async fn poll(shared: &Shared, steps: &dyn PermitSteps) {
    loop {
        let mut pause = POLL_INTERVAL;
        let objects = shared.waiters.objects();
        if objects.is_empty() {
            shared.waiters.to_poll.notified().await;
            sleep(FIRST_POLL).await;
            continue;
        }
        for batch in objects.chunks(BATCH) {
            let sent = now();
            for (object, answer) in batch.iter().zip(steps.poll(batch).await) {
                match answer {
                    Ok(polled) => {
                        for orphaned in shared.waiters.polled(object, &polled, sent) {
                            shared.send_cancel(object, orphaned, Ttl::DEFAULT);
                        }
                        pause = polled.next.map_or(pause, |next| pause.min(next + AFTER_EXPIRY));
                    }
                    // Woken waiters send requests of their own and get the error.
                    Err(error) if error.kind().is_final() => shared.waiters.wake_object(object),
                    Err(error) => tracing::debug!(%error, name = %object.name, "poll failed"),
                }
            }
        }
        sleep(pause.max(AFTER_EXPIRY)).await;
    }
}

/// Looks at all wait groups whose end callers wait for, and at once at those that a hint names.
async fn watch_groups(shared: &Shared, groups: Option<&dyn GroupSteps>) {
    let Some(groups) = groups else { return std::future::pending().await };
    loop {
        let due = shared.group_waiters.take_due();
        for batch in due.chunks(BATCH) {
            let looks: Vec<Look> = batch.iter().map(|asked| asked.look.clone()).collect();
            let sent = now();
            for (asked, answer) in batch.iter().zip(groups.look(&looks).await) {
                shared.group_waiters.looked(asked, answer, sent);
            }
        }
        tokio::select! {
            () = sleep_until_some(shared.group_waiters.next_look()) => {}
            () = shared.group_waiters.changed.notified() => {}
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
                tracing::debug!(%error, "no wake-ups for now, the poll floor serves");
                sleep(POLL_INTERVAL).await;
            }
        }
    }
}
