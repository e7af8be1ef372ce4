//! Acquisitions under way. One that keeps others waiting although nobody polls it is taken over,
//! and what it has at the store is freed ([C6]).
//!
//! [C6]: crate::contract#c6

use std::time::Duration;

use tokio::time::Instant;

use crate::Ticket;
use crate::clock::sleep;
use crate::engine::sending::leftover::Leftover;
use crate::engine::shared::Shared;
use crate::engine::timing::{MAXIMUM_PAUSE, engine_now as now};
use crate::engine::waiting::waiters::{Waiters, Woken};

/// How long a caller that goes on may take, beyond the time of what it waits for: a busy machine
/// polls late. Calls under way are looked at again after this time, or earlier.
const MIN_PATIENCE: Duration = Duration::from_millis(250);

/// An acquisition under way, of which the store may know.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) leftover: Leftover,
    /// A hint arrived before the answer that it queues.
    pub(super) is_hinted: bool,
    /// Since when others may wait for it: a request of it may have been granted, or it was told
    /// that it is its turn.
    since: Option<Instant>,
    /// By then its caller goes on, if somebody polls it.
    polled_by: Instant,
}

impl Asking {
    /// Returns when it is passed over, unless its caller goes on before (C6).
    fn due(&self) -> Option<Instant> {
        let since = self.since.filter(|_| self.leftover.can_be_passed_over)?;
        Some((since + self.leftover.patience()).max(self.polled_by))
    }

    /// Notes that it is its turn.
    pub(super) fn turn(&mut self) {
        if self.since.is_none() {
            (self.since, self.polled_by) = (Some(now()), now() + MIN_PATIENCE);
        }
    }
}

impl Waiters {
    /// Registers an acquisition of which a request is about to be sent; [`leave`](Self::leave) ends
    /// it. A hint that came before stays. `is_known`: it was registered before. Returns `false` if
    /// it was taken over since.
    pub(crate) fn ask(&self, leftover: &Leftover, is_known: bool) -> bool {
        let mut inner = self.inner();
        if is_known && leftover.can_be_passed_over && !inner.asking.contains_key(&leftover.ticket) {
            return false;
        }
        let is_first = inner.asking.is_empty();
        let asking = inner.asking.entry(leftover.ticket).or_insert_with(|| Asking {
            leftover: leftover.clone(),
            is_hinted: false,
            since: None,
            polled_by: now(),
        });
        asking.leftover.is_answered = leftover.is_answered;
        asking.since = asking.since.or_else(|| Some(now()));
        asking.polled_by = now() + leftover.lease.get() / 3 + MIN_PATIENCE;
        drop(inner);
        if is_first {
            self.to_pass_over.notify_one();
        }
        true
    }

    /// Notes the answer that an acquisition queues: nobody waits for it now.
    pub(crate) fn queued(&self, leftover: &Leftover) {
        if let Some(asking) = self.inner().asking.get_mut(&leftover.ticket) {
            asking.leftover.is_answered = leftover.is_answered;
            asking.since = None;
            if asking.is_hinted {
                asking.turn();
            }
        }
    }

    /// Notes that a request of an acquisition failed. `is_open`: it, or an earlier one, may have
    /// been executed.
    pub(crate) fn failed(&self, ticket: Ticket, is_open: bool) {
        if let Some(asking) = self.inner().asking.get_mut(&ticket) {
            asking.since = asking.since.filter(|_| is_open);
            asking.polled_by = now() + MAXIMUM_PAUSE + MIN_PATIENCE;
        }
    }

    /// Notes that the caller has a grant in its hands; `false` if a close has taken it over, or it
    /// was passed over.
    pub(crate) fn hand_out(&self, ticket: Ticket) -> bool {
        let mut inner = self.inner();
        let asking = inner.asking.get_mut(&ticket);
        asking.map(|asking| asking.leftover.can_be_passed_over = false).is_some()
    }

    /// Returns whether the acquisition is still this one's: a close can have taken it over, or it
    /// was passed over.
    pub(crate) fn is_asking(&self, ticket: Ticket) -> bool {
        self.inner().asking.contains_key(&ticket)
    }

    /// Takes the acquisitions over that keep others waiting and whose callers have not gone on for
    /// too long: nobody polls them. `free` frees what is left of one; it is called with the lock
    /// held, as that of [`leave`](Self::leave). Returns also when the next one may be due, if there
    /// are any.
    pub(crate) fn take_unpolled(
        &self,
        at: Instant,
        free: impl Fn(&Leftover),
    ) -> (Vec<Leftover>, Option<Instant>) {
        let mut inner = self.inner();
        let is_due = |asking: &Asking| asking.due().is_some_and(|due| due <= at);
        let unpolled: Vec<_> = inner.asking.extract_if(|_, asking| is_due(asking)).collect();
        let mut woken = Woken::default();
        for (ticket, asking) in &unpolled {
            woken.0.extend(inner.stop_waiting(*ticket, self));
            free(&asking.leftover);
        }
        let next = (!inner.asking.is_empty())
            .then(|| inner.asking.values().filter_map(Asking::due).min().unwrap_or(at + MIN_PATIENCE));
        drop(inner);
        woken.send();
        (unpolled.into_iter().map(|(_, asking)| asking.leftover).collect(), next)
    }
}

/// Takes acquisitions over that keep others waiting although nobody polls them (C6): what they have
/// at the store is freed.
pub(crate) async fn pass_over(shared: &Shared) {
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
