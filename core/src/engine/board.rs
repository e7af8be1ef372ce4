//! Who waits in this process, and for what: where wake-ups are delivered.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::steps::{Object, Polled};
use crate::Ticket;
use crate::clock::now;

/// A waiter's bell. It remembers one ring.
pub(crate) type Bell = Arc<Notify>;

#[derive(Debug)]
struct Watched {
    tickets: HashSet<Ticket>,
    /// The life of the record that the tickets queue in, as far as is known.
    born: u64,
    /// The shortest lease among the waiters: unheard for so long, they may have lost their places.
    patience: Duration,
    heard: Instant,
}

#[derive(Debug, Default)]
struct Inner {
    bells: HashMap<Ticket, (Bell, Object)>,
    objects: HashMap<Object, Watched>,
    /// Hints that came before their waiter had read that it waits.
    early: VecDeque<Ticket>,
}

/// The board of one store object.
#[derive(Debug, Default)]
pub(crate) struct Board {
    inner: Mutex<Inner>,
    /// Told when the first waiter comes: one bell for each of the two that sleep while there is none.
    pub(crate) to_poll: Notify,
    pub(crate) to_listen: Notify,
}

impl Inner {
    fn ring(&self, tickets: &[Ticket]) {
        let bells = tickets.iter().filter_map(|ticket| self.bells.get(ticket));
        bells.for_each(|(bell, _)| bell.notify_one());
    }
}

/// How many early hints are remembered; an older one costs its waiter a poll.
const EARLY: usize = 1024;

impl Board {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a waiter that the store has queued in the record of that birth.
    pub(crate) fn join(&self, object: &Object, ticket: Ticket, patience: Duration, born: u64) -> Bell {
        let bell = Bell::default();
        let mut inner = self.inner();
        if let Some(index) = inner.early.iter().position(|early| *early == ticket) {
            inner.early.remove(index);
            bell.notify_one();
        }
        let first = inner.bells.is_empty();
        inner.bells.insert(ticket, (Arc::clone(&bell), object.clone()));
        let watched = inner.objects.entry(object.clone()).or_insert_with(|| Watched {
            tickets: HashSet::new(),
            born,
            patience,
            heard: now(),
        });
        let reborn = watched.born != born;
        watched.born = born;
        let before = if reborn { watched.tickets.iter().copied().collect() } else { Vec::new() };
        watched.tickets.insert(ticket);
        watched.patience = watched.patience.min(patience);
        inner.ring(&before);
        drop(inner);
        if first {
            self.to_poll.notify_one();
            self.to_listen.notify_one();
        }
        bell
    }

    pub(crate) fn leave(&self, ticket: Ticket) {
        let mut inner = self.inner();
        let Some((_, object)) = inner.bells.remove(&ticket) else { return };
        if let Some(watched) = inner.objects.get_mut(&object) {
            watched.tickets.remove(&ticket);
            if watched.tickets.is_empty() {
                inner.objects.remove(&object);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inner().bells.is_empty()
    }

    /// A hint arrived. A stranger's may be early.
    pub(crate) fn ring(&self, ticket: Ticket) {
        let mut inner = self.inner();
        match inner.bells.get(&ticket) {
            Some((bell, _)) => bell.notify_one(),
            None => {
                if inner.early.len() == EARLY {
                    inner.early.pop_front();
                }
                inner.early.push_back(ticket);
            }
        }
    }

    /// Rings everybody's bell and tells who they are.
    pub(crate) fn ring_all(&self) -> Vec<(Object, Ticket)> {
        let inner = self.inner();
        inner
            .bells
            .iter()
            .map(|(ticket, (bell, object))| {
                bell.notify_one();
                (object.clone(), *ticket)
            })
            .collect()
    }

    /// The objects waited for.
    pub(crate) fn objects(&self) -> Vec<Object> {
        self.inner().objects.keys().cloned().collect()
    }

    /// The store's answer about an object: rings those whose turn it is, or all if the queue may have been lost.
    pub(crate) fn heard(&self, object: &Object, polled: &Polled, at: Instant) {
        let mut inner = self.inner();
        let Some(watched) = inner.objects.get_mut(object) else { return };
        let silent = at.saturating_duration_since(watched.heard) > watched.patience;
        let reborn = watched.born != polled.born;
        watched.born = polled.born;
        watched.heard = at;
        let ringing: Vec<Ticket> =
            if silent || reborn { watched.tickets.iter().copied().collect() } else { polled.ready.clone() };
        inner.ring(&ringing);
    }
}
