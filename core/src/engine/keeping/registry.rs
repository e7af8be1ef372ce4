//! The holds of one store object, and when each is renewed next.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::Ticket;
use crate::engine::keeping::hold::LeaseHold;
use crate::spi::{Force, Object};
use crate::sync::{Mutex, MutexGuard, Notify};

/// Maximum time by which a hold is renewed early, together with others.
const MAXIMUM_ADVANCE: Duration = Duration::from_secs(2);

/// The holds of one store object, with the schedule of their renewals.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    inner: Mutex<RegistryInner>,
    /// Notified when a renewal is added that is earlier than the one that the renewal loop sleeps
    /// for.
    pub(crate) earlier: Notify,
}

/// Hashes tickets by their own bits, which are random already.
#[derive(Debug, Default)]
struct TicketHasher(u64);

impl Hasher for TicketHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u128(&mut self, bits: u128) {
        // The upper half has the mark of detached holds.
        self.0 = u64::try_from(bits & u128::from(u64::MAX)).unwrap_or_default();
    }
}

type ByTicket<T> = HashMap<Ticket, T, BuildHasherDefault<TicketHasher>>;

#[derive(Debug, Default)]
struct RegistryInner {
    holds: ByTicket<(Arc<LeaseHold>, Option<Instant>)>,
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

    pub(crate) fn len(&self) -> usize {
        self.inner().holds.len()
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

    /// Schedules a hold's next renewal, unless the hold has gone meanwhile.
    pub(crate) fn reschedule(&self, ticket: Ticket, at: Option<Instant>) {
        let mut inner = self.inner();
        let Some((_, slot)) = inner.holds.get_mut(&ticket) else { return };
        let before = std::mem::replace(slot, at);
        if let Some(before) = before {
            inner.schedule.remove(&(before, ticket));
        }
        self.schedule(&mut inner, ticket, at);
    }

    /// Takes all holds whose renewal is due at `at`, and those due soon after (within a twelfth of
    /// their lease, at most 2 s): they are renewed together (C13). Also returns when the next
    /// renewal is due.
    pub(crate) fn take_due(&self, at: Instant) -> (Vec<Arc<LeaseHold>>, Option<Instant>) {
        let mut inner = self.inner();
        let horizon = at + MAXIMUM_ADVANCE;
        let mut due = Vec::new();
        if inner.schedule.first().is_some_and(|(first, _)| *first <= at) {
            let keys: Vec<_> = inner.schedule.range(..(horizon, Ticket::from(0))).copied().collect();
            for key in keys {
                let Some((hold, slot)) = inner.holds.get_mut(&key.1) else { continue };
                if key.0 <= at + MAXIMUM_ADVANCE.min(hold.lease.get() / 12) {
                    due.push(Arc::clone(hold));
                    *slot = None;
                    inner.schedule.remove(&key);
                }
            }
        }
        inner.wakes_at = inner.schedule.first().map(|(first, _)| *first);
        (due, inner.wakes_at)
    }

    /// Returns the holds that a forced release is about.
    pub(crate) fn matching(&self, object: &Object, force: Force) -> Vec<Arc<LeaseHold>> {
        let inner = self.inner();
        let matching = |hold: &&Arc<LeaseHold>| {
            hold.object == *object && (force == Force::All || force == Force::One(hold.ticket))
        };
        inner.holds.values().map(|(hold, _)| hold).filter(matching).cloned().collect()
    }

    /// Refuses further holds, and returns all that are there.
    pub(crate) fn close(&self) -> Vec<Arc<LeaseHold>> {
        let mut inner = self.inner();
        inner.closed = true;
        inner.schedule.clear();
        inner.holds.drain().map(|(_, (hold, _))| hold).collect()
    }
}
