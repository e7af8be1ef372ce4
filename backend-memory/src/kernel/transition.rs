//! One change of the state of a name: the time, read at most once, and the wake-ups to send once
//! the lock is free.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use stanchion_core::Ticket;
use stanchion_core::clock::Instant;
use stanchion_core::observe::events::LossCause;
use stanchion_core::runtime::contain_wake;

use super::generations::Generation;
use super::holds::Grant;
use super::terms::Terms;
use crate::clock::{Moment, StoreClock};
use crate::sync::Broadcast;

/// A hold that its guard lost.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) ticket: Ticket,
    /// For the label.
    pub(crate) terms: Terms,
    pub(crate) held: Duration,
    pub(crate) cause: LossCause,
}

/// One change of state. Everything in it happens at one moment, which is read under the lock (C7)
/// and only if something depends on it. Wake-ups are gathered under the lock and sent after it.
#[derive(Debug)]
pub(crate) struct Transition<'a> {
    clock: &'a StoreClock,
    at: Option<Moment>,
    /// The first waker lives inline: a hand-off does not allocate.
    first: Option<Waker>,
    /// A waker no longer in use. Dropping it may drop a task with all its guards, so it is dropped
    /// after the lock too.
    retired: Option<Waker>,
    more: Option<Box<More>>,
    /// Whether a hold ended in another way than by its holder.
    pub(crate) lost: bool,
    /// The end of a lease that a caller waits for and that is not watched yet.
    pub(crate) next_end: Option<Instant>,
}

#[derive(Debug, Default)]
struct More {
    wakers: Vec<Waker>,
    retired: Vec<Waker>,
    /// Generations that ended, or whose members may end sooner than their waiters expect.
    generations: Vec<Arc<Generation>>,
    losses: Vec<Loss>,
}

impl<'a> Transition<'a> {
    #[inline]
    pub(crate) fn new(clock: &'a StoreClock) -> Self {
        Self { clock, at: None, first: None, retired: None, more: None, lost: false, next_end: None }
    }

    /// Returns a transition at a given moment.
    #[cfg(test)]
    pub(super) fn at_moment(clock: &'a StoreClock, at: Moment) -> Self {
        Self { at: Some(at), ..Self::new(clock) }
    }

    /// Returns the moment of this transition.
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

    /// Takes a waker that is no longer needed.
    pub(crate) fn retire(&mut self, waker: Waker) {
        if let Some(earlier) = self.retired.replace(waker) {
            self.more.get_or_insert_default().retired.push(earlier);
        }
    }

    pub(crate) fn wake_waiters_of(&mut self, generation: Option<Arc<Generation>>) {
        if let Some(generation) = generation {
            self.more.get_or_insert_default().generations.push(generation);
        }
    }

    /// Takes note of a hold that has ended in another way than by its holder. A detached one, and
    /// one whose future was not polled, has no guard that loses it.
    #[cold]
    pub(crate) fn lose(&mut self, grant: &Grant, cause: LossCause) {
        self.lost = true;
        if grant.is_detached() || grant.is_offered() {
            return;
        }
        let held = Duration::from_micros(self.at().micros.saturating_sub(grant.since));
        let loss = Loss { ticket: grant.ticket, terms: grant.terms.clone(), held, cause };
        self.more.get_or_insert_default().losses.push(loss);
    }

    /// Returns the gathered losses, to be logged once the lock is free.
    #[inline]
    pub(crate) fn take_losses(&mut self) -> Vec<Loss> {
        self.more.as_mut().map_or_else(Vec::new, |more| std::mem::take(&mut more.losses))
    }

    /// Sends the gathered wake-ups. Must not be called under the lock, because a waker may run any
    /// code.
    #[inline]
    pub(crate) fn end(self) {
        if let Some(waker) = self.first {
            contain_wake(|| waker.wake());
        }
        if let Some(retired) = self.retired {
            contain_wake(|| drop(retired));
        }
        if let Some(more) = self.more {
            more.wakers.into_iter().for_each(|waker| contain_wake(|| waker.wake()));
            more.retired.into_iter().for_each(|waker| contain_wake(|| drop(waker)));
            let changed = more.generations.iter().map(|generation| &generation.changed);
            changed.for_each(|changed: &Broadcast| changed.notify_waiters());
        }
    }
}
