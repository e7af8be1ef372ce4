//! One turn at the state of a name: the time, read at most once, and what must be told when the lock is given back.

use std::sync::Arc;
use std::task::Waker;

use super::generations::Generation;
use crate::clock::{Moment, StoreClock};

/// One turn. Everything in it happens at one moment, which is read under the lock (C7) and only if something depends
/// on it. Wake-ups are gathered under the lock and sent after it.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    clock: &'a StoreClock,
    at: Option<Moment>,
    /// The first waker lives inline: a hand-off does not allocate.
    first: Option<Waker>,
    /// A waker out of use. Dropping it may drop a task with all its guards, so that waits for the lock too.
    retired: Option<Waker>,
    more: Option<Box<More>>,
    /// A hold ended otherwise than by its holder.
    pub(crate) lost: bool,
}

#[derive(Debug, Default)]
struct More {
    wakers: Vec<Waker>,
    retired: Vec<Waker>,
    /// Generations that ended, or whose members may end sooner than those who wait for them know.
    generations: Vec<Arc<Generation>>,
}

impl<'a> Turn<'a> {
    #[inline]
    pub(crate) fn new(clock: &'a StoreClock) -> Self {
        Self { clock, at: None, first: None, retired: None, more: None, lost: false }
    }

    /// A turn at a given moment.
    #[cfg(test)]
    pub(super) fn at_moment(clock: &'a StoreClock, at: Moment) -> Self {
        Self { at: Some(at), ..Self::new(clock) }
    }

    /// The moment of this turn.
    #[inline]
    pub(crate) fn at(&mut self) -> Moment {
        *self.at.get_or_insert_with(|| self.clock.read())
    }

    #[inline]
    pub(crate) fn wake(&mut self, waker: Waker) {
        if self.first.is_none() {
            self.first = Some(waker);
        } else {
            self.more.get_or_insert_default().wakers.push(waker);
        }
    }

    pub(crate) fn wake_all(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        wakers.into_iter().for_each(|waker| self.wake(waker));
    }

    /// Takes a waker that is not needed any more.
    pub(crate) fn retire(&mut self, waker: Waker) {
        if let Some(earlier) = self.retired.replace(waker) {
            self.more.get_or_insert_default().retired.push(earlier);
        }
    }

    pub(crate) fn tell(&mut self, generation: Option<Arc<Generation>>) {
        if let Some(generation) = generation {
            self.more.get_or_insert_default().generations.push(generation);
        }
    }

    /// Wakes all it gathered. Must not be called under the lock: a waker may run anything.
    #[inline]
    pub(crate) fn end(self) {
        if let Some(waker) = self.first {
            waker.wake();
        }
        if let Some(more) = self.more {
            more.wakers.into_iter().for_each(Waker::wake);
            more.generations.iter().for_each(|generation| generation.changed.notify_waiters());
        }
    }
}
