//! The waiters of this process, by object, and the delivery of wake-ups to them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::Ticket;
use crate::clock::now;
use crate::engine::sending::leftover::Leftover;
use crate::engine::timing::LIVENESS;
use crate::engine::waiting::asking::Asking;
use crate::runtime::contain_wake;
use crate::spi::{Object, Polled, WakeSource};
use crate::sync::{Mutex, MutexGuard, Notify};

/// Wakes one waiter. It remembers one wake-up.
pub(crate) type WakeUp = Arc<Notify>;

/// Wake-ups to be sent once the lock of the waiters is free: a waker can drop the call that it
/// wakes, which leaves, and one that panics keeps none from the others (C27).
#[must_use]
#[derive(Default)]
pub(super) struct Woken(pub(super) Vec<WakeUp>);

impl Woken {
    pub(super) fn send(self) {
        self.0.iter().for_each(|wake_up| contain_wake(|| wake_up.notify_one()));
    }
}

#[derive(Debug)]
struct WaitedObject {
    wake_ups: HashMap<Ticket, WakeUp>,
    /// The epoch of the record that the waiters queue in, in the last answer.
    epoch: u64,
    /// The shortest lease among the waiters: if the store does not hear of them for that long, they
    /// may lose their places.
    shortest_lease: Duration,
    /// When the last request that the store has answered was sent.
    heard: Instant,
    /// Tickets in the last answer that no acquisition of this process has.
    unknown: Vec<Ticket>,
}

impl WaitedObject {
    fn all(&self) -> Woken {
        Woken(self.wake_ups.values().cloned().collect())
    }

    fn of(&self, tickets: &[Ticket]) -> Woken {
        Woken(tickets.iter().filter_map(|ticket| self.wake_ups.get(ticket)).cloned().collect())
    }

    /// Returns whether the store may have heard nothing of these waiters for as long as it keeps
    /// their places. The request answered at `answered` was executed at that moment at the latest,
    /// the previous one when it was sent at the earliest.
    fn may_have_lost_places(&self, answered: Instant) -> bool {
        let retention = self.shortest_lease.max(LIVENESS) * 98 / 100;
        answered.saturating_duration_since(self.heard) > retention
    }
}

/// The content of an answer that says to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    /// When the request was sent.
    pub(crate) sent: Instant,
    /// The epoch of the record.
    pub(crate) epoch: u64,
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    objects: HashMap<Object, WaitedObject>,
    waiting: HashMap<Ticket, Object>,
    /// The acquisitions under way.
    pub(super) asking: HashMap<Ticket, Asking>,
    closed: bool,
}

impl Inner {
    /// Notes that it is the turn of these waiters, as far as that is new.
    fn turn_of(&mut self, tickets: &[Ticket]) {
        for ticket in tickets {
            let Some(asking) = self.asking.get_mut(ticket) else { continue };
            if self.waiting.contains_key(ticket) {
                asking.turn();
            } else {
                asking.is_hinted = true;
            }
        }
    }

    /// Forgets a waiter; returns what woke it.
    pub(super) fn stop_waiting(&mut self, ticket: Ticket, waiters: &Waiters) -> Option<WakeUp> {
        let object = self.waiting.remove(&ticket)?;
        let watched = self.objects.get_mut(&object)?;
        let wake_up = watched.wake_ups.remove(&ticket);
        if watched.wake_ups.is_empty() {
            self.objects.remove(&object);
            waiters.watch(&object, false);
        }
        wake_up
    }
}

/// The waiters of one store object.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    inner: Mutex<Inner>,
    /// Learns which objects have waiters.
    wake_source: Option<Arc<dyn WakeSource>>,
    /// Notified when the first waiter joins: one for each of the two loops that sleep while there
    /// are none.
    pub(crate) to_poll: Notify,
    pub(crate) to_listen: Notify,
    /// Notified when there is an acquisition again.
    pub(crate) to_pass_over: Notify,
}

/// Of the time after which a store calls a process silent, what may pass unheard by this process's
/// own clock.
const SILENCE: Duration = LIVENESS.saturating_sub(Duration::from_millis(50));

impl Waiters {
    pub(crate) fn new(wake_source: Option<Arc<dyn WakeSource>>) -> Self {
        Self { wake_source, ..Self::default() }
    }

    /// Called with the lock held, so that the source of wake-ups learns of changes in their order.
    fn watch(&self, object: &Object, waited_for: bool) {
        if let Some(wake_source) = &self.wake_source {
            wake_source.watch(object, waited_for);
        }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a waiter that the store has queued.
    pub(crate) fn join(
        &self,
        object: &Object,
        ticket: Ticket,
        shortest_lease: Duration,
        queued: Queued,
    ) -> WakeUp {
        let Queued { sent, epoch } = queued;
        let wake_up = WakeUp::default();
        let mut inner = self.inner();
        // One that was taken over goes on at once.
        let asking = inner.asking.get_mut(&ticket);
        if asking.is_none_or(|asking| std::mem::take(&mut asking.is_hinted)) || inner.closed {
            wake_up.notify_one();
        }
        let first = inner.waiting.is_empty();
        inner.waiting.insert(ticket, object.clone());
        let watched = inner.objects.entry(object.clone()).or_insert_with(|| {
            self.watch(object, true);
            let (wake_ups, unknown) = (HashMap::new(), Vec::new());
            WaitedObject { wake_ups, epoch, shortest_lease, heard: sent, unknown }
        });
        let woken = if watched.epoch == epoch { Woken::default() } else { watched.all() };
        watched.epoch = epoch;
        watched.wake_ups.insert(ticket, Arc::clone(&wake_up));
        watched.shortest_lease = watched.shortest_lease.min(shortest_lease);
        drop(inner);
        woken.send();
        if first {
            self.to_poll.notify_one();
            self.to_listen.notify_one();
        }
        wake_up
    }

    /// Ends an acquisition. `free` frees what is left of it, unless a close has taken that over. It
    /// is called with the lock held, so that a close finds it here or freed.
    pub(crate) fn leave(&self, leftover: &Leftover, free: impl FnOnce()) {
        let mut inner = self.inner();
        let is_its_own = inner.asking.remove(&leftover.ticket).is_some();
        // Where it was passed over, a request may have left late, after what freed it.
        let was_passed_over = !is_its_own && !inner.closed && leftover.can_be_passed_over;
        if is_its_own || was_passed_over && !leftover.is_answered {
            free();
        }
        inner.stop_waiting(leftover.ticket, self);
    }

    /// Ends an acquisition of which nothing is to be freed; `false` if a close has taken it over.
    pub(crate) fn settle(&self, ticket: Ticket) -> bool {
        self.inner().asking.remove(&ticket).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.inner().waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inner().waiting.is_empty()
    }

    /// Delivers a hint. It may be early or late.
    pub(crate) fn wake(&self, ticket: Ticket) {
        let mut inner = self.inner();
        let watched = inner.waiting.get(&ticket).and_then(|object| inner.objects.get(object));
        let woken = watched.map(|watched| watched.of(&[ticket])).unwrap_or_default();
        inner.turn_of(&[ticket]);
        drop(inner);
        woken.send();
    }

    /// Wakes all waiters, and from now on each that joins; takes all acquisitions under way over.
    pub(crate) fn close(&self) -> Vec<Leftover> {
        let mut inner = self.inner();
        inner.closed = true;
        let woken = Woken(inner.objects.values().flat_map(|watched| watched.all().0).collect());
        let asking = inner.asking.drain().map(|(_, asking)| asking.leftover).collect();
        drop(inner);
        woken.send();
        asking
    }

    /// Wakes the waiters of an object.
    pub(crate) fn wake_object(&self, object: &Object) {
        let woken = self.inner().objects.get(object).map(WaitedObject::all).unwrap_or_default();
        woken.send();
    }

    /// Returns the objects that have waiters.
    pub(crate) fn objects(&self) -> Vec<Object> {
        self.inner().objects.keys().cloned().collect()
    }

    /// Notes that a request sent at `sent` has marked the process as live. Returns whether it may
    /// have been silent before: the mark says nothing of that, since a request about other objects
    /// may have marked it just before. Then only a poll shows whether the places are kept, and a
    /// waiter that may have lost its place is woken.
    pub(crate) fn marked(&self, object: &Object, sent: Instant) -> bool {
        let answered = now();
        let mut inner = self.inner();
        let Some(watched) = inner.objects.get_mut(object) else { return false };
        if answered.saturating_duration_since(watched.heard) < SILENCE {
            watched.heard = sent;
            return false;
        }
        let mut woken = Woken::default();
        if watched.may_have_lost_places(answered) {
            watched.heard = sent;
            woken = watched.all();
        }
        drop(inner);
        woken.send();
        true
    }

    /// Applies the answer to a poll sent at `sent`: wakes the waiters that may be granted, or all
    /// if the store may have lost the queue.
    ///
    /// Returns orphaned places: tickets that queue at the store although their acquisition has
    /// ended, so that nothing would remove them. A request delayed for longer than its tombstone
    /// lasts can leave one. Two answers in a row have to name the ticket: a single answer may be
    /// older than the grant that ended the acquisition.
    pub(crate) fn polled(&self, object: &Object, polled: &Polled, sent: Instant) -> Vec<Ticket> {
        let answered = now();
        let mut inner = self.inner();
        let unknown =
            |ticket: &&Ticket| !inner.waiting.contains_key(ticket) && !inner.asking.contains_key(ticket);
        let unknown: Vec<Ticket> = polled.ready.iter().filter(unknown).copied().collect();
        let Some(watched) = inner.objects.get_mut(object) else { return Vec::new() };
        let woken = match watched.may_have_lost_places(answered) || watched.epoch != polled.epoch {
            true => watched.all(),
            false => watched.of(&polled.ready),
        };
        watched.epoch = polled.epoch;
        watched.heard = sent;
        let orphaned = unknown.iter().filter(|ticket| watched.unknown.contains(ticket)).copied().collect();
        watched.unknown = unknown;
        inner.turn_of(&polled.ready);
        drop(inner);
        woken.send();
        orphaned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sending::leftover::Left;
    use crate::sync::model::explore;
    use crate::{Kind, Name, Ttl};

    fn is_woken(wake_up: &WakeUp) -> bool {
        let mut notified = std::pin::pin!(wake_up.notified());
        notified.as_mut().enable()
    }

    /// A mark that another request made just before hides that the process was silent (C5, C14,
    /// C16).
    #[test]
    fn c16_a_mark_after_a_silence_says_nothing_of_the_places() {
        explore(1, marks);
    }

    fn marks() {
        let object = Object { kind: Kind::Mutex, name: Name::new("a").unwrap() };
        let lease = Ttl::new(Duration::from_secs(2)).unwrap();
        for (silence, asks, wakes) in [(300, false, false), (1_000, true, false), (2_000, true, true)] {
            let waiters = Waiters::default();
            let sent = now().checked_sub(Duration::from_millis(silence)).unwrap();
            let ticket = Ticket::random();
            let (left, object) = (Left::Place, object.clone());
            let (is_answered, can_be_passed_over) = (true, false);
            let leftover = Leftover { object, ticket, lease, left, is_answered, can_be_passed_over };
            waiters.ask(&leftover, false);
            let object = leftover.object;
            let wake_up = waiters.join(&object, ticket, lease.get(), Queued { sent, epoch: 1 });
            assert_eq!(waiters.marked(&object, now()), asks, "after {silence} ms");
            assert_eq!(is_woken(&wake_up), wakes, "after {silence} ms");
            // A poll that answers then still sees the silence.
            let polled = Polled { epoch: 1, ..Polled::default() };
            waiters.polled(&object, &polled, now());
            assert!(!waiters.marked(&object, now()), "it was polled");
        }
    }
}
