//! Who waits in this process for wait groups to come to zero: one watch generation_end for each generation, whatever the number
//! of callers (C15).
//!
//! A caller looks by itself first. While the generation is open, the engine's thread due_looks for all who wait, and tells
//! them.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock::now;
use crate::engine::timing::{AFTER_EXPIRY, POLL};
use crate::engine::waiting::generation_end::{End, GenerationEnd};
use crate::steps::{Look, Looked, Object, WakeSource};
use crate::{Result, Ticket};

/// What the engine's thread due_looks for one watch generation_end.
#[derive(Debug)]
pub(crate) struct DueLook {
    pub(crate) look: Look,
    born: u64,
}

#[derive(Debug)]
struct WatchedGeneration {
    born: u64,
    generation: u64,
    generation_end: Arc<GenerationEnd>,
    callers: usize,
}

#[derive(Debug)]
struct WaitedGroup {
    hint: Ticket,
    callers: usize,
    /// How many hints came.
    hints: u64,
    generations: Vec<WatchedGeneration>,
}

impl WaitedGroup {
    fn due_looks<'a>(&'a self, object: &'a Object) -> impl Iterator<Item = DueLook> + 'a {
        self.generations.iter().map(|watched| {
            let watch = Some(watched.generation);
            DueLook { look: Look { object: object.clone(), watch, hint: self.hint }, born: watched.born }
        })
    }
}

#[derive(Debug, Default)]
struct Inner {
    groups: HashMap<Object, WaitedGroup>,
    hints: HashMap<Ticket, Object>,
    /// Groups that a hint named.
    due: HashSet<Object>,
    /// Watch generations, over all groups.
    generations: usize,
    /// When all are asked about next.
    next: Option<Instant>,
    closed: bool,
}

impl Inner {
    /// All are asked about at that moment, or before.
    fn look_by(&mut self, at: Instant) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

/// The watch generations of one store object.
#[derive(Debug, Default)]
pub(crate) struct GroupWaiters {
    inner: Mutex<Inner>,
    wake_source: Option<Arc<dyn WakeSource>>,
    /// What hints are made of: the same for a group whenever it is waited for.
    hints: RandomState,
    /// Told when somebody is to be asked for sooner.
    pub(crate) changed: Notify,
    /// Told when somebody waits.
    pub(crate) to_listen: Notify,
}

impl GroupWaiters {
    /// Tells `wake` which groups are waited for.
    pub(crate) fn new(wake_source: Option<Arc<dyn WakeSource>>) -> Self {
        Self { wake_source, ..Self::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on somebody of this process waits for the group, or nobody any more.
    fn waited_for(&self, object: &Object, waited_for: bool) {
        if let Some(wake_source) = &self.wake_source {
            wake_source.watch(object, waited_for);
        }
        if waited_for {
            self.to_listen.notify_one();
        }
    }

    /// The hint of a group.
    pub(crate) fn hint(&self, object: &Object) -> Ticket {
        let half = |part: u8| u128::from(self.hints.hash_one((part, object)));
        Ticket::from(half(0) << 64 | half(1))
    }

    /// A caller is about to look at a group and may wait.
    pub(crate) fn join<'a>(&'a self, object: &'a Object) -> Interest<'a> {
        let hint = self.hint(object);
        let mut inner = self.inner();
        let group = inner.groups.entry(object.clone()).or_insert_with(|| WaitedGroup {
            hint,
            callers: 0,
            hints: 0,
            generations: Vec::new(),
        });
        group.callers += 1;
        let hints = group.hints;
        inner.hints.insert(hint, object.clone());
        Interest { watches: self, object, hint, hints, generation_end: None }
    }

    /// A hint arrived; `false` if it is none of a wait group's.
    pub(crate) fn wake(&self, hint: Ticket) -> bool {
        let mut inner = self.inner();
        let Some(object) = inner.hints.get(&hint).cloned() else { return false };
        if let Some(group) = inner.groups.get_mut(&object) {
            group.hints += 1;
        }
        inner.due.insert(object);
        drop(inner);
        self.changed.notify_one();
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inner().generations == 0
    }

    /// What is to be asked now: for all, if it is time, or else for those that hints named.
    pub(crate) fn take_due(&self) -> Vec<DueLook> {
        let at = now();
        let mut inner = self.inner();
        let due = std::mem::take(&mut inner.due);
        if inner.next.is_some_and(|next| next <= at) {
            inner.next = (inner.generations > 0).then(|| at + POLL);
            return inner.groups.iter().flat_map(|(object, group)| group.due_looks(object)).collect();
        }
        let named = due.iter().filter_map(|object| inner.groups.get(object).map(|group| (object, group)));
        named.flat_map(|(object, group)| group.due_looks(object)).collect()
    }

    /// When to ask for all.
    pub(crate) fn looks_at(&self) -> Option<Instant> {
        self.inner().next
    }

    /// The store's answer to a request sent at `sent`.
    pub(crate) fn heard(&self, asked: &DueLook, answer: Result<Looked>, sent: Instant) {
        let mut inner = self.inner();
        let Some(group) = inner.groups.get_mut(&asked.look.object) else { return };
        let key = (asked.born, asked.look.watch);
        let found =
            group.generations.iter().position(|watched| (watched.born, Some(watched.generation)) == key);
        let Some(index) = found else { return };
        let end = match answer {
            Ok(looked) if looked.born != asked.born => End::Gone(looked, sent),
            Ok(Looked { ended: Some(outcome), .. }) => End::Zero(outcome),
            Err(error) if error.kind().is_final() => End::Refused(error),
            Ok(looked) => {
                group.generations[index].generation_end.hear(None);
                if let Some(next) = looked.next {
                    inner.look_by(now() + next + AFTER_EXPIRY);
                }
                return;
            }
            Err(error) => {
                tracing::debug!(%error, name = %asked.look.object.name, "look failed");
                group.generations[index].generation_end.hear(Some(error));
                return;
            }
        };
        let watched = group.generations.swap_remove(index);
        if group.generations.is_empty() {
            self.waited_for(&asked.look.object, false);
        }
        inner.generations -= 1;
        drop(inner);
        watched.generation_end.tell(end);
    }

    /// Ends all waiting, also of those who come.
    pub(crate) fn close(&self) {
        let mut inner = self.inner();
        inner.closed = true;
        inner.generations = 0;
        for (object, group) in &mut inner.groups {
            if !group.generations.is_empty() {
                self.waited_for(object, false);
            }
            group.generations.drain(..).for_each(|watched| watched.generation_end.tell(End::Closed));
        }
    }
}

/// One caller at one group. Dropped, it waits no more.
#[derive(Debug)]
pub(crate) struct Interest<'a> {
    watches: &'a GroupWaiters,
    object: &'a Object,
    hint: Ticket,
    /// The hints that had come when it looked.
    hints: u64,
    generation_end: Option<Arc<GenerationEnd>>,
}

impl Interest<'_> {
    /// The look to begin with. Hints that come from now on count.
    pub(crate) fn look(&mut self) -> Look {
        if let Some(group) = self.group_waiters.inner().groups.get(self.object) {
            self.hints = group.hints;
        }
        Look { object: self.object.clone(), watch: Some(0), hint: self.hint }
    }

    /// Waits for the end of the generation that the look, sent at `sent`, found open.
    pub(crate) fn attend(&mut self, looked: &Looked, sent: Instant) -> Arc<GenerationEnd> {
        let mut guard = self.group_waiters.inner();
        let inner = &mut *guard;
        let generation_end = Arc::<GenerationEnd>::default();
        if inner.closed {
            generation_end.tell(End::Closed);
            return generation_end;
        }
        let Some(group) = inner.groups.get_mut(self.object) else { return generation_end };
        let key = (looked.born, looked.generation);
        let found = group.generations.iter_mut().find(|watched| (watched.born, watched.generation) == key);
        let generation_end = if let Some(watched) = found {
            watched.callers += 1;
            Arc::clone(&watched.generation_end)
        } else {
            let watched = WatchedGeneration {
                born: key.0,
                generation: key.1,
                generation_end: Arc::clone(&generation_end),
                callers: 1,
            };
            if group.generations.is_empty() {
                self.group_waiters.waited_for(self.object, true);
            }
            group.generations.push(watched);
            inner.generations += 1;
            generation_end
        };
        self.generation_end = Some(Arc::clone(&generation_end));
        if group.hints != self.hints {
            inner.due.insert(self.object.clone());
        }
        let pause = looked.next.map_or(POLL, |next| POLL.min(next + AFTER_EXPIRY));
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
        let Some(group) = inner.groups.get_mut(self.object) else { return };
        let own = |watched: &WatchedGeneration| {
            self.generation_end
                .as_ref()
                .is_some_and(|generation_end| Arc::ptr_eq(generation_end, &watched.generation_end))
        };
        if let Some(index) = group.generations.iter().position(own) {
            group.generations[index].callers -= 1;
            if group.generations[index].callers == 0 {
                group.generations.swap_remove(index);
                inner.generations -= 1;
                if group.generations.is_empty() {
                    self.group_waiters.waited_for(self.object, false);
                }
            }
        }
        group.callers -= 1;
        if group.callers == 0 {
            inner.groups.remove(self.object);
            inner.hints.remove(&self.hint);
        }
    }
}
