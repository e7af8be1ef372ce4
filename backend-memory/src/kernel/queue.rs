//! The waiters of one name, first come, first served.

use std::collections::VecDeque;
use std::task::Waker;

use stanchion_core::Ticket;

use super::claim::Claim;
use super::terms::Terms;
use crate::session_id::SessionId;

/// The arrival number of a waiter, unchanged for as long as it waits (C16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival(u64);

/// One queued request.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) arrival: Arrival,
    pub(crate) ticket: Ticket,
    pub(crate) weight: u32,
    pub(crate) session: SessionId,
    pub(crate) terms: Terms,
    pub(crate) waker: Waker,
}

impl Waiter {
    pub(crate) fn claim(&self) -> Claim<'_> {
        let Self { ticket, weight, session, terms, .. } = self;
        Claim { ticket: *ticket, weight: *weight, session: *session, terms }
    }
}

/// Why a queued request will never be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Its store object was closed (C12).
    Closed,
    /// The limit became smaller than the request (C20).
    TooLarge {
        /// The limit in force.
        limit: u32,
    },
}

/// Waiters in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Waiter>,
    /// Waiters taken out without a grant, until their futures are polled.
    refused: Vec<(Arrival, Refusal)>,
    last: u64,
}

impl Queue {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns an arrival number larger than all earlier ones.
    #[inline]
    pub(crate) fn arrive(&mut self) -> Arrival {
        self.last += 1;
        Arrival(self.last)
    }

    /// Queues a waiter at the place of its arrival number.
    #[inline]
    pub(crate) fn insert(&mut self, waiter: Waiter) {
        if self.waiting.back().is_none_or(|last| last.arrival < waiter.arrival) {
            self.waiting.push_back(waiter);
        } else if let Err(place) = self.place(waiter.arrival) {
            self.waiting.insert(place, waiter);
        }
    }

    #[inline]
    pub(crate) fn head(&self) -> Option<&Waiter> {
        self.waiting.front()
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Waiter> {
        self.waiting.pop_front()
    }

    pub(crate) fn get_mut(&mut self, arrival: Arrival) -> Option<&mut Waiter> {
        let place = self.place(arrival).ok()?;
        self.waiting.get_mut(place)
    }

    /// Takes a waiter out of the queue.
    pub(crate) fn remove(&mut self, arrival: Arrival) -> Option<Waiter> {
        let place = self.place(arrival).ok()?;
        self.waiting.remove(place)
    }

    /// Takes out the waiters that meet a condition, and keeps the reason for each.
    pub(crate) fn refuse(&mut self, refusal: Refusal, condition: impl Fn(&Waiter) -> bool) -> Vec<Waker> {
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (refused, waiting): (Vec<Waiter>, Vec<Waiter>) = all.partition(|waiter| condition(waiter));
        self.waiting = waiting.into();
        self.refused.extend(refused.iter().map(|waiter| (waiter.arrival, refusal)));
        refused.into_iter().map(|waiter| waiter.waker).collect()
    }

    /// Returns, once, why a waiter was refused.
    pub(crate) fn take_refusal(&mut self, arrival: Arrival) -> Option<Refusal> {
        let place = self.refused.iter().position(|(refused, _)| *refused == arrival)?;
        Some(self.refused.swap_remove(place).1)
    }

    /// Returns the number of refusals kept for futures that were not polled since.
    #[cfg(test)]
    pub(crate) fn undelivered_refusals(&self) -> usize {
        self.refused.len()
    }

    /// Returns the number of waiters of a store object.
    pub(crate) fn count_of(&self, session: SessionId) -> usize {
        self.waiting.iter().filter(|waiter| waiter.session == session).count()
    }

    pub(crate) fn wakers(&self) -> impl Iterator<Item = Waker> {
        self.waiting.iter().map(|waiter| waiter.waker.clone())
    }

    fn place(&self, arrival: Arrival) -> Result<usize, usize> {
        self.waiting.binary_search_by_key(&arrival, |waiter| waiter.arrival)
    }
}
