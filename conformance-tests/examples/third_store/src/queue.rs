//! Who waits for a name, and whose turn it is (C16).

use stanchion_core::Ticket;
use stanchion_core::steps::{Acquire, Polled, ProcessId};

use crate::record::Record;
use crate::server::Moment;

/// A waiter's place in the queue.
#[derive(Clone, Copy, Debug)]
pub struct QueuedWaiter {
    /// Names the acquisition.
    pub ticket: Ticket,
    /// Whose waiter it is: its wake-ups go there, and with it it falls silent.
    pub process: ProcessId,
    /// How many permits it wants.
    pub weight: u32,
    /// For so long the place is kept while its process is silent, in µs.
    pub lease: u64,
}

impl Record {
    pub(crate) fn is_queued(&self, ticket: Ticket) -> bool {
        self.queue.iter().any(|waiter| waiter.ticket == ticket)
    }

    /// Whether the queue is at a bound. The silent do not count (C26).
    pub(crate) fn is_full(&self, bound: Option<u32>, at: &Moment<'_>) -> bool {
        bound.is_some_and(|bound| {
            self.queue.iter().filter(|waiter| at.is_live(waiter)).count() >= bound as usize
        })
    }

    pub(crate) fn join(&mut self, ask: &Acquire, at: &Moment<'_>) {
        let (ticket, weight, process) = (ask.ticket, ask.weight, at.client.process);
        let lease = at.end_of(ask.lease) - at.now;
        self.queue.push(QueuedWaiter { ticket, process, weight, lease });
        self.keep(at.now, at);
    }

    /// Takes a ticket out of the queue, if it is in it. Those behind may fit now.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        let before = self.queue.len();
        self.queue.retain(|waiter| waiter.ticket != ticket);
        self.stirred |= self.queue.len() < before;
    }

    /// Takes out who was silent for a whole lease. Until then a silent waiter keeps its place, and is first again when
    /// its process is heard.
    pub(crate) fn drop_silent(&mut self, at: &Moment<'_>) {
        self.queue
            .retain(|waiter| at.is_live(waiter) || at.liveness.heard(waiter.process) + waiter.lease > at.now);
    }

    /// Whether no live waiter stands in front of a ticket; one that joined has those before it in front, any other
    /// ticket all. Who wants more than the limit can never be served, and is passed over.
    pub(crate) fn is_first(&self, ticket: Ticket, limit: u32, at: &Moment<'_>) -> bool {
        let mut in_front = self.queue.iter().take_while(|waiter| waiter.ticket != ticket);
        !in_front.any(|waiter| waiter.weight <= limit && at.is_live(waiter))
    }

    /// Whose turn it is: the live waiters that fit together, up to the first one that does not fit: it is not passed
    /// (S5). Who wants more than the limit is told, too, and learns so when it asks.
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
        self.queue.iter().filter(|waiter| at.is_live(waiter)).filter(|waiter| is_next(waiter)).copied().collect()
    }

    /// What the asking process has to know of its waiters. That it asks shows that they live.
    pub(crate) fn poll(&self, at: &mut Moment<'_>) -> Polled {
        at.hear();
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
        // What can change without a hint: a lease that ends, and somebody in front who falls silent.
        let in_front = self.queue.iter().take_while(|waiter| !is_own(waiter));
        let silences = in_front.map(|waiter| at.liveness.until(waiter.process)).filter(|until| *until > at.now);
        let next = self.holds.iter().map(|hold| hold.expires).chain(silences).min();
        Polled { ready, next: next.map(|next| at.until(next)), born: self.born }
    }
}
