//! Which holds there are and when each is renewed next.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::Ticket;
use crate::engine::keeping::hold::LeaseHold;
use crate::steps::{Force, Object};
use crate::sync::{Mutex, MutexGuard, Notify};

/// How much sooner than due a hold may be renewed in the company of others.
const TOGETHER: Duration = Duration::from_secs(2);

/// The holds of one store object: all of them, and when each is renewed next.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    inner: Mutex<RegistryInner>,
    /// Told when an earlier renewal than the one the watchdog sleeps for is added.
    pub(crate) earlier: Notify,
}

#[derive(Debug, Default)]
struct RegistryInner {
    holds: HashMap<Ticket, (Arc<LeaseHold>, Option<Instant>)>,
    schedule: BTreeSet<(Instant, Ticket)>,
    wakes_at: Option<Instant>,
    closed: bool,
}

impl Registry {
    fn inner(&self) -> MutexGuard<'_, RegistryInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a hold; `false` if the store object was closed.
    pub(crate) fn insert(&self, hold: &Arc<LeaseHold>, renew_at: Option<Instant>) -> bool {
        let mut inner = self.inner();
        if inner.closed {
            return false;
        }
        inner.holds.insert(hold.ticket, (Arc::clone(hold), renew_at));
        self.schedule(&mut inner, hold.ticket, renew_at);
        true
    }

    fn schedule(&self, inner: &mut RegistryInner, ticket: Ticket, at: Option<Instant>) {
        let Some(at) = at else { return };
        inner.schedule.insert((at, ticket));
        if inner.wakes_at.is_none_or(|wakes_at| at < wakes_at) {
            inner.wakes_at = Some(at);
            self.earlier.notify_one();
        }
    }

    pub(crate) fn find(&self, ticket: Ticket) -> Option<Arc<LeaseHold>> {
        self.inner().holds.get(&ticket).map(|(hold, _)| Arc::clone(hold))
    }

    pub(crate) fn remove(&self, ticket: Ticket) {
        let mut inner = self.inner();
        if let Some((_, Some(at))) = inner.holds.remove(&ticket) {
            inner.schedule.remove(&(at, ticket));
        }
    }

    /// Puts a hold's next renewal at `at`, unless the hold has gone meanwhile.
    pub(crate) fn reschedule(&self, ticket: Ticket, at: Option<Instant>) {
        let mut inner = self.inner();
        let Some((_, slot)) = inner.holds.get_mut(&ticket) else { return };
        let before = std::mem::replace(slot, at);
        if let Some(before) = before {
            inner.schedule.remove(&(before, ticket));
        }
        self.schedule(&mut inner, ticket, at);
    }

    /// Takes all holds that are due at `at` or, within a twelfth of their lease and 2 s, soon after: they are renewed together
    /// (C13). Also tells when to look again.
    pub(crate) fn take_due(&self, at: Instant) -> (Vec<Arc<LeaseHold>>, Option<Instant>) {
        let mut inner = self.inner();
        let horizon = at + TOGETHER;
        let mut due = Vec::new();
        if inner.schedule.first().is_some_and(|(first, _)| *first <= at) {
            let keys: Vec<_> = inner.schedule.range(..(horizon, Ticket::from(0))).copied().collect();
            for key in keys {
                let Some((hold, slot)) = inner.holds.get_mut(&key.1) else { continue };
                if key.0 <= at + TOGETHER.min(hold.lease.get() / 12) {
                    due.push(Arc::clone(hold));
                    *slot = None;
                    inner.schedule.remove(&key);
                }
            }
        }
        inner.wakes_at = inner.schedule.first().map(|(first, _)| *first);
        (due, inner.wakes_at)
    }

    /// The holds that a use of force is about.
    pub(crate) fn meant_by(&self, object: &Object, force: Force) -> Vec<Arc<LeaseHold>> {
        let inner = self.inner();
        let meant = |hold: &&Arc<LeaseHold>| {
            hold.object == *object && (force == Force::All || force == Force::One(hold.ticket))
        };
        inner.holds.values().map(|(hold, _)| hold).filter(meant).cloned().collect()
    }

    /// Refuses further holds and gives back all that are there.
    pub(crate) fn close(&self) -> Vec<Arc<LeaseHold>> {
        let mut inner = self.inner();
        inner.closed = true;
        inner.schedule.clear();
        inner.holds.drain().map(|(_, (hold, _))| hold).collect()
    }
}
