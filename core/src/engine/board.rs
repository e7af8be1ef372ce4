//! Who waits in this process, and for what: where wake-ups are delivered.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::steps::{Object, Polled, WakeSource};
use crate::Ticket;
use crate::clock::now;
use crate::sync::{Mutex, MutexGuard, Notify};

/// A waiter's bell. It remembers one ring.
pub(crate) type Bell = Arc<Notify>;

#[derive(Debug)]
struct Watched {
    tickets: HashSet<Ticket>,
    /// The life of the record that the tickets queue in, as far as is known.
    born: u64,
    /// The shortest lease among the waiters: unheard for so long, they may have lost their places.
    patience: Duration,
    /// When the last request was sent that the store has heard.
    heard: Instant,
    /// Tickets that the last answer named and nobody here knew.
    strangers: Vec<Ticket>,
}

impl Watched {
    /// Whether the store may have gone without hearing these waiters for as long as it keeps their places: the request
    /// answered at `answered` was executed at that moment at the latest, and the one before not before it was sent.
    fn may_have_lost_places(&self, answered: Instant) -> bool {
        let kept = self.patience.max(KEPT) * 98 / 100;
        answered.saturating_duration_since(self.heard) > kept
    }
}

/// What an answer that says to wait tells about the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    /// When the request was sent.
    pub(crate) sent: Instant,
    /// The life of the record.
    pub(crate) born: u64,
}

#[derive(Debug, Default)]
struct Inner {
    bells: HashMap<Ticket, (Bell, Object)>,
    objects: HashMap<Object, Watched>,
    /// The acquisitions under way that may queue, and whether a hint came before they had read that they wait.
    asking: HashMap<Ticket, bool>,
    closed: bool,
}

/// The board of one store object.
#[derive(Debug, Default)]
pub(crate) struct Board {
    inner: Mutex<Inner>,
    /// Told which objects are waited for.
    wake: Option<Arc<dyn WakeSource>>,
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

/// No store takes a place away from a waiter that was heard within this time, however short its lease.
const KEPT: Duration = Duration::from_secs(1);

impl Board {
    pub(crate) fn new(wake: Option<Arc<dyn WakeSource>>) -> Self {
        Self { wake, ..Self::default() }
    }

    /// Tells the source of wake-ups; with the lock held, so that it hears of changes in their order.
    fn watch(&self, object: &Object, waited_for: bool) {
        if let Some(wake) = &self.wake {
            wake.watch(object, waited_for);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An acquisition begins that may queue; it ends with [`leave`](Self::leave).
    pub(crate) fn ask(&self, ticket: Ticket) {
        self.inner().asking.insert(ticket, false);
    }

    /// Adds a waiter that the store has queued, by a request sent at `sent`, in the record of that birth.
    pub(crate) fn join(&self, object: &Object, ticket: Ticket, patience: Duration, queued: Queued) -> Bell {
        let Queued { sent, born } = queued;
        let bell = Bell::default();
        let mut inner = self.inner();
        if inner.closed || inner.asking.get(&ticket) == Some(&true) {
            bell.notify_one();
        }
        let first = inner.bells.is_empty();
        inner.bells.insert(ticket, (Arc::clone(&bell), object.clone()));
        let watched = inner.objects.entry(object.clone()).or_insert_with(|| {
            self.watch(object, true);
            Watched { tickets: HashSet::new(), born, patience, heard: sent, strangers: Vec::new() }
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
        inner.asking.remove(&ticket);
        let Some((_, object)) = inner.bells.remove(&ticket) else { return };
        if let Some(watched) = inner.objects.get_mut(&object) {
            watched.tickets.remove(&ticket);
            if watched.tickets.is_empty() {
                inner.objects.remove(&object);
                self.watch(&object, false);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inner().bells.is_empty()
    }

    /// A hint arrived. It may be early, or late.
    pub(crate) fn ring(&self, ticket: Ticket) {
        let mut inner = self.inner();
        if let Some((bell, _)) = inner.bells.get(&ticket) {
            bell.notify_one();
        } else if let Some(hinted) = inner.asking.get_mut(&ticket) {
            *hinted = true;
        }
    }

    /// Rings everybody's bell, from now on also of those who come.
    pub(crate) fn close(&self) -> Vec<(Object, Ticket)> {
        self.inner().closed = true;
        self.ring_all()
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

    /// Rings the bells of an object's waiters.
    pub(crate) fn ring_object(&self, object: &Object) {
        let inner = self.inner();
        if let Some(watched) = inner.objects.get(object) {
            inner.ring(&watched.tickets.iter().copied().collect::<Vec<_>>());
        }
    }

    /// The objects waited for.
    pub(crate) fn objects(&self) -> Vec<Object> {
        self.inner().objects.keys().cloned().collect()
    }

    /// The store's answer about an object, to a poll sent at `sent`: rings those whose turn it is, or all if the queue
    /// may have been lost.
    ///
    /// Returns the ghosts: places of acquisitions that have ended, which nobody would ever give up. A request that was
    /// delayed for longer than its tombstone stays can leave one. Two answers in a row have to name it: a single one
    /// may be older than the grant that ended the acquisition.
    pub(crate) fn heard(&self, object: &Object, polled: &Polled, sent: Instant) -> Vec<Ticket> {
        let answered = now();
        let mut inner = self.inner();
        let unknown =
            |ticket: &&Ticket| !inner.bells.contains_key(ticket) && !inner.asking.contains_key(ticket);
        let strangers: Vec<Ticket> = polled.ready.iter().filter(unknown).copied().collect();
        let Some(watched) = inner.objects.get_mut(object) else { return Vec::new() };
        let all = watched.may_have_lost_places(answered) || watched.born != polled.born;
        watched.born = polled.born;
        watched.heard = sent;
        let ghosts = strangers.iter().filter(|ticket| watched.strangers.contains(ticket)).copied().collect();
        watched.strangers = strangers;
        let ringing: Vec<Ticket> =
            if all { watched.tickets.iter().copied().collect() } else { polled.ready.clone() };
        inner.ring(&ringing);
        ghosts
    }
}
