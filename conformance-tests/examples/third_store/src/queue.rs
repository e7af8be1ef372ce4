//! The waiters of a name, and which of them may be granted (C16).

use stanchion_core::Ticket;
use stanchion_core::spi::{Acquire, Polled};

use crate::moment::Moment;
use crate::record::{QueuedWaiter, Record};

impl Record {
    pub(crate) fn is_queued(&self, ticket: Ticket) -> bool {
        self.queue.iter().any(|waiter| waiter.ticket == ticket)
    }

    /// Returns whether the queue is at its bound. Silent waiters do not count (C26).
    pub(crate) fn is_full(&self, bound: Option<u32>, at: &Moment<'_>) -> bool {
        bound.is_some_and(|bound| {
            self.queue.iter().filter(|waiter| at.is_live(waiter.process)).count() >= bound as usize
        })
    }

    pub(crate) fn join(&mut self, ask: &Acquire, at: &Moment<'_>) {
        let (ticket, weight, process) = (ask.ticket, ask.weight, at.client.process);
        let lease = at.end_of(ask.lease) - at.now;
        self.queue.push(QueuedWaiter { ticket, process, weight, lease });
        self.keep(at.now, at);
    }

    /// Removes a ticket from the queue, if it is in it. The waiters behind it may fit now.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        let before = self.queue.len();
        self.queue.retain(|waiter| waiter.ticket != ticket);
        self.stirred |= self.queue.len() < before;
    }

    /// Removes the waiters that were silent for a whole lease. Until then a silent waiter keeps its
    /// place, and is first again when its process is heard.
    pub(crate) fn drop_silent(&mut self, at: &Moment<'_>) {
        self.queue.retain(|waiter| {
            at.is_live(waiter.process) || at.liveness.heard(waiter.process) + waiter.lease > at.now
        });
    }

    /// Returns whether a ticket can come in beside all who hold and all live waiters in front of
    /// it, who may come in any order. All waiters are in front of a ticket that has not joined. A
    /// waiter that asks for more than the limit can never be granted, and is passed over.
    pub(crate) fn fits(&self, ticket: Ticket, weight: u32, limit: u32, at: &Moment<'_>) -> bool {
        let in_front = self.queue.iter().take_while(|waiter| waiter.ticket != ticket);
        let live = in_front.filter(|waiter| waiter.weight <= limit && at.is_live(waiter.process));
        let wanted = live.map(|waiter| u64::from(waiter.weight)).sum::<u64>() + u64::from(weight);
        self.used() + wanted <= u64::from(limit)
    }

    /// Returns the waiters to wake: the live waiters that fit together, up to the first one that
    /// does not fit, which is never passed (S5). A waiter that asks for more than the limit is
    /// woken, too, and gets the refusal when it asks.
    pub(crate) fn next_grants(&self, at: &Moment<'_>) -> Vec<QueuedWaiter> {
        let limit = self.limit.unwrap_or_default();
        let (mut room, mut open) = (u64::from(limit).saturating_sub(self.used()), true);
        let mut is_next = |waiter: &&QueuedWaiter| {
            if waiter.weight > limit {
                return true;
            }
            open = open && u64::from(waiter.weight) <= room;
            room -= if open { u64::from(waiter.weight) } else { 0 };
            open
        };
        self.queue
            .iter()
            .filter(|waiter| at.is_live(waiter.process))
            .filter(|waiter| is_next(waiter))
            .copied()
            .collect()
    }

    /// Returns the state of the polling process's waiters. The poll marks them as live.
    pub(crate) fn poll(&self, at: &mut Moment<'_>) -> Polled {
        at.mark_live();
        let is_own = |waiter: &QueuedWaiter| waiter.process == at.client.process;
        let (mut ready, mut others) = (Vec::new(), false);
        for waiter in self.next_grants(at) {
            let too_large = Some(waiter.weight) > self.limit;
            if !is_own(&waiter) {
                others |= !too_large;
            } else if too_large || !others {
                ready.push(waiter.ticket);
            }
        }
        // Two changes come without a hint: a lease ends, or a waiter in front falls silent.
        let in_front = self.queue.iter().take_while(|waiter| !is_own(waiter));
        let silences =
            in_front.map(|waiter| at.liveness.until(waiter.process)).filter(|until| *until > at.now);
        let next = self.holds.iter().map(|hold| hold.expires).chain(silences).min();
        let is_first = self.queue.first().is_some_and(is_own);
        Polled { ready, next: next.map(|next| at.until(next)), is_first, epoch: self.epoch }
    }
}
