//! Renewal: holds that are due are renewed together, in few calls (C13).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::Ttl;
use crate::clock::now;
use crate::clock::wait_until;
use crate::engine::keeping::hold::LeaseHold;
use crate::engine::shared::Shared;
use crate::engine::timing::renewal_interval;
use crate::spi::{Kept, Lane, Renew, Request, RequestKind, Steps, StepsExt};
use crate::sync::spawn;

/// A hold, and its renewal.
type Due = (Arc<LeaseHold>, Renew);

/// Renews the holds that are due, each batch on its own, so that a stalled batch does not delay the
/// others.
pub(crate) async fn renew_due(shared: &Arc<Shared>, steps: &Arc<dyn Steps>) {
    loop {
        let sent = now();
        let (due, next) = shared.registry.take_due(sent);
        for batch in batches(requests(shared, due, sent), shared, &**steps, sent) {
            let (shared, steps) = (Arc::clone(shared), Arc::clone(steps));
            spawn(async move { renew(&shared, &*steps, batch, sent).await });
        }
        tokio::select! {
            () = wait_until(next) => {}
            () = shared.registry.earlier.notified() => {}
        }
    }
}

/// Returns the renewals of the due holds, without holds that ended meanwhile or whose renewal has
/// ended.
fn requests(shared: &Shared, due: Vec<Arc<LeaseHold>>, sent: Instant) -> Vec<Due> {
    let mut requests = Vec::with_capacity(due.len());
    for hold in due {
        if !hold.is_held() {
            shared.registry.reschedule(hold.ticket, None);
        } else if let Some(lease) = hold.next_lease(sent) {
            let renew = Renew { object: hold.object.clone(), ticket: hold.ticket, lease };
            requests.push((hold, renew));
        }
    }
    requests
}

/// Splits renewals into requests, each of one lane, so that a server that is silent delays its own
/// holds alone (C27).
///
/// The shortest lease in a request sets its time limit, so renewals whose own limit is twice as
/// long, or is that of the steps, leave in another request: every renewal gets at least half of its
/// own time limit, and there are few requests however many different leases there are.
fn batches(due: Vec<Due>, shared: &Shared, steps: &dyn Steps, at: Instant) -> Vec<Vec<Due>> {
    let mut alike = BTreeMap::<(Lane, u32), Vec<Due>>::new();
    for (hold, renew) in due {
        let lane = steps.lane(&Request::from(renew.clone()));
        let key = (lane, halvings(steps.request_timeout(), renew.lease));
        alike.entry(key).or_default().push((hold, renew));
    }
    let mut batches = Vec::new();
    for ((lane, _), mut due) in alike {
        // Here, and not behind the call of the step: a part that is not answered must not delay the
        // others' answers.
        let most = shared.containment.part_sizes.most(lane, at).min(RequestKind::Renew.maximum_batch());
        while due.len() > most {
            batches.push(due.split_off(due.len() - most));
        }
        batches.push(due);
    }
    batches
}

/// Returns how often the time limit has to be halved until it is within a third of the lease.
fn halvings(mut limit: Duration, lease: Ttl) -> u32 {
    let mut halvings = 0;
    while limit > lease.request_limit(limit) {
        limit /= 2;
        halvings += 1;
    }
    halvings
}

async fn renew(shared: &Shared, steps: &dyn Steps, batch: Vec<Due>, sent: Instant) {
    let (holds, requests): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
    let answers = steps.ask_all(&requests).await;
    let answered = now();
    for (index, (hold, request)) in holds.iter().zip(&requests).enumerate() {
        let next = match answers.get(index) {
            Some(Ok(Kept::Yes)) => {
                let left = hold.deadline().saturating_duration_since(answered);
                if left < request.lease.belief() / 3 && hold.is_held() {
                    hold.meter().renewed_late();
                }
                hold.extend(sent, request.lease);
                Some(sent + renewal_interval(request.lease))
            }
            Some(Ok(Kept::No)) => {
                hold.lose_gone();
                None
            }
            failed => {
                let error = failed.and_then(|failed| failed.as_ref().err());
                tracing::debug!(
                    stanchion.store = hold.store,
                    stanchion.kind = hold.object.kind.as_str(),
                    stanchion.name = hold.object.name.as_str(),
                    stanchion.ticket = %hold.ticket,
                    error.type = error.map(|error| error.kind().as_str()),
                    exception.message = error.map(tracing::field::debug),
                    "a renewal failed, and is tried again until the deadline"
                );
                Some(answered + hold.retry_after())
            }
        };
        shared.registry.reschedule(hold.ticket, next.filter(|_| hold.is_held()));
    }
}
