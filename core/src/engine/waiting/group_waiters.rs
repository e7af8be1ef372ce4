//! The callers of this process that wait for wait groups to reach zero: one entry per generation,
//! whatever the number of callers (C15).
//!
//! A caller's first look is its own. While the generation is open, the engine's thread looks for
//! all callers, and wakes them at its end.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock::now;
use crate::engine::timing::{AFTER_EXPIRY, POLL_INTERVAL};
use crate::engine::waiting::generation_end::{End, GenerationEnd};
use crate::spi::{Look, Looked, Object, WakeSource};
use crate::{Result, Ticket};

/// A look of the engine's thread at one generation.
#[derive(Debug)]
pub(crate) struct DueLook {
    pub(crate) look: Look,
    epoch: u64,
}

impl DueLook {
    /// Identifies the generation.
    pub(crate) fn key(&self) -> (Object, u64, Option<u64>) {
        (self.look.object.clone(), self.epoch, self.look.watch)
    }
}

#[derive(Debug)]
struct WatchedGeneration {
    epoch: u64,
    generation: u64,
    generation_end: Arc<GenerationEnd>,
    callers: usize,
}

#[derive(Debug)]
struct WaitedGroup {
    object: Object,
    callers: usize,
    /// Number of hints that arrived.
    hints: u64,
    generations: Vec<WatchedGeneration>,
}

#[derive(Debug, Default)]
struct Inner {
    /// By their hints.
    groups: HashMap<Ticket, WaitedGroup>,
    /// Groups named by a hint.
    due: HashSet<Ticket>,
    /// When the next look at all generations is due.
    next: Option<Instant>,
    closed: bool,
}

impl Inner {
    fn has_generations(&self) -> bool {
        self.groups.values().any(|group| !group.generations.is_empty())
    }

    fn looks_at(&self, hint: Ticket) -> impl Iterator<Item = DueLook> {
        self.groups.get(&hint).into_iter().flat_map(move |group| {
            group.generations.iter().map(move |watched| {
                let (object, watch) = (group.object.clone(), Some(watched.generation));
                DueLook { look: Look { object, watch, hint }, epoch: watched.epoch }
            })
        })
    }

    /// Makes the look at all generations due at `at`, or earlier.
    fn look_by(&mut self, at: Instant) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

/// The callers of one store object that wait for wait groups.
#[derive(Debug, Default)]
pub(crate) struct GroupWaiters {
    inner: Mutex<Inner>,
    wake_source: Option<Arc<dyn WakeSource>>,
    /// Keys of the hints: a group has the same hint whenever it has waiters.
    hints: RandomState,
    /// Notified when a look is due earlier than before.
    pub(crate) changed: Notify,
    /// Notified when the first caller waits.
    pub(crate) to_listen: Notify,
}

impl GroupWaiters {
    /// `wake_source` learns which groups have waiters.
    pub(crate) fn new(wake_source: Option<Arc<dyn WakeSource>>) -> Self {
        Self { wake_source, ..Self::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes on to the source of wake-ups whether the group has waiters.
    fn waited_for(&self, object: &Object, waited_for: bool) {
        if let Some(wake_source) = &self.wake_source {
            wake_source.watch(object, waited_for);
        }
        if waited_for {
            self.to_listen.notify_one();
        }
    }

    /// Returns the hint of a group.
    pub(crate) fn hint(&self, object: &Object) -> Ticket {
        let half = |part: u8| u128::from(self.hints.hash_one((part, object)));
        Ticket::from(half(0) << 64 | half(1))
    }

    /// Registers a caller that is about to look at a group and may wait.
    pub(crate) fn join<'a>(&'a self, object: &'a Object) -> Interest<'a> {
        let hint = self.hint(object);
        let mut inner = self.inner();
        let group = inner.groups.entry(hint).or_insert_with(|| WaitedGroup {
            object: object.clone(),
            callers: 0,
            hints: 0,
            generations: Vec::new(),
        });
        group.callers += 1;
        Interest { group_waiters: self, object, hint, hints: group.hints, generation_end: None }
    }

    /// Delivers a hint; `false` if it is not that of a wait group.
    pub(crate) fn wake(&self, hint: Ticket) -> bool {
        let mut inner = self.inner();
        let Some(group) = inner.groups.get_mut(&hint) else { return false };
        group.hints += 1;
        inner.due.insert(hint);
        drop(inner);
        self.changed.notify_one();
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.inner().has_generations()
    }

    /// Returns the looks that are due now: at all generations if that is due, otherwise at the
    /// groups that hints named.
    pub(crate) fn take_due(&self) -> Vec<DueLook> {
        let at = now();
        let mut inner = self.inner();
        let due = std::mem::take(&mut inner.due);
        if inner.next.is_some_and(|next| next <= at) {
            inner.next = inner.has_generations().then(|| at + POLL_INTERVAL);
            return inner.groups.keys().flat_map(|hint| inner.looks_at(*hint)).collect();
        }
        due.into_iter().flat_map(|hint| inner.looks_at(hint)).collect()
    }

    /// Returns when the look at all generations is due.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.inner().next
    }

    /// Applies the answer to a look sent at `sent`.
    pub(crate) fn looked(&self, asked: &DueLook, answer: Result<Looked>, sent: Instant) {
        let mut inner = self.inner();
        let Some(group) = inner.groups.get_mut(&asked.look.hint) else { return };
        let key = (asked.epoch, asked.look.watch);
        let found =
            group.generations.iter().position(|watched| (watched.epoch, Some(watched.generation)) == key);
        let Some(index) = found else { return };
        let end = match answer {
            Ok(looked) if looked.epoch != asked.epoch => End::Gone(looked, sent),
            Ok(Looked { ended: Some(outcome), .. }) => End::Zero(outcome),
            Err(error) if error.kind().is_final() => End::Refused(error),
            Ok(looked) => {
                group.generations[index].generation_end.note_open(None);
                if let Some(next) = looked.next {
                    inner.look_by(now() + next + AFTER_EXPIRY);
                }
                return;
            }
            Err(error) => {
                tracing::debug!(
                    stanchion.kind = asked.look.object.kind.as_str(),
                    stanchion.name = asked.look.object.name.as_str(),
                    error.type = error.kind().as_str(),
                    exception.message = ?error,
                    "a look at a wait group failed"
                );
                group.generations[index].generation_end.note_open(Some(error));
                return;
            }
        };
        let watched = group.generations.swap_remove(index);
        if group.generations.is_empty() {
            self.waited_for(&asked.look.object, false);
        }
        drop(inner);
        watched.generation_end.set(end);
    }

    /// Ends all waiting, also that of later callers.
    pub(crate) fn close(&self) {
        let mut inner = self.inner();
        inner.closed = true;
        let mut closed = Vec::new();
        for group in inner.groups.values_mut() {
            if !group.generations.is_empty() {
                self.waited_for(&group.object, false);
            }
            closed.append(&mut group.generations);
        }
        drop(inner);
        closed.iter().for_each(|watched| watched.generation_end.set(End::Closed));
    }
}

/// One caller of one group. Dropping it ends its waiting.
#[derive(Debug)]
pub(crate) struct Interest<'a> {
    group_waiters: &'a GroupWaiters,
    object: &'a Object,
    hint: Ticket,
    /// Number of hints that had arrived when it looked.
    hints: u64,
    generation_end: Option<Arc<GenerationEnd>>,
}

impl Interest<'_> {
    /// Returns the first look. Hints that arrive from now on count.
    pub(crate) fn look(&mut self) -> Look {
        if let Some(group) = self.group_waiters.inner().groups.get(&self.hint) {
            self.hints = group.hints;
        }
        Look { object: self.object.clone(), watch: Some(0), hint: self.hint }
    }

    /// Registers the caller for the end of the generation that the look, sent at `sent`, found
    /// open.
    pub(crate) fn watch(&mut self, looked: &Looked, sent: Instant) -> Arc<GenerationEnd> {
        let mut guard = self.group_waiters.inner();
        let inner = &mut *guard;
        let generation_end = Arc::<GenerationEnd>::default();
        if inner.closed {
            generation_end.set(End::Closed);
            return generation_end;
        }
        let Some(group) = inner.groups.get_mut(&self.hint) else { return generation_end };
        let key = (looked.epoch, looked.generation);
        let found = group.generations.iter_mut().find(|watched| (watched.epoch, watched.generation) == key);
        let generation_end = if let Some(watched) = found {
            watched.callers += 1;
            Arc::clone(&watched.generation_end)
        } else {
            let watched = WatchedGeneration {
                epoch: key.0,
                generation: key.1,
                generation_end: Arc::clone(&generation_end),
                callers: 1,
            };
            if group.generations.is_empty() {
                self.group_waiters.waited_for(self.object, true);
            }
            group.generations.push(watched);
            generation_end
        };
        self.generation_end = Some(Arc::clone(&generation_end));
        if group.hints != self.hints {
            inner.due.insert(self.hint);
        }
        let pause = looked.next.map_or(POLL_INTERVAL, |next| POLL_INTERVAL.min(next + AFTER_EXPIRY));
        let before = inner.next;
        inner.look_by(sent + pause);
        if inner.next != before || !inner.due.is_empty() {
            self.group_waiters.changed.notify_one();
        }
        generation_end
    }
}

impl Drop for Interest<'_> {
    fn drop(&mut self) {
        let mut guard = self.group_waiters.inner();
        let inner = &mut *guard;
        let Some(group) = inner.groups.get_mut(&self.hint) else { return };
        let own = |watched: &WatchedGeneration| {
            self.generation_end
                .as_ref()
                .is_some_and(|generation_end| Arc::ptr_eq(generation_end, &watched.generation_end))
        };
        if let Some(index) = group.generations.iter().position(own) {
            group.generations[index].callers -= 1;
            if group.generations[index].callers == 0 {
                group.generations.swap_remove(index);
                if group.generations.is_empty() {
                    self.group_waiters.waited_for(self.object, false);
                }
            }
        }
        group.callers -= 1;
        if group.callers == 0 {
            inner.groups.remove(&self.hint);
        }
    }
}
