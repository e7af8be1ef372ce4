//! The state machine under mutexes, semaphores and wait groups: holds, a limit and a queue. Pure: time is an argument,
//! and wake-ups are gathered, not sent.

use std::task::Waker;

use stanchion_core::clock::Instant;
use stanchion_core::{FencingToken, Inspection, Ticket};

use super::generations::{Cause, Generations};
use super::holds::{Grant, Holds};
use super::queue::{Arrival, Queue, Refusal, Waiter};
use super::terms::Terms;
use super::turn::Turn;
use crate::clock::{Moment, micros};
use crate::session::SessionId;

/// How many permits may be out; `None` is a wait group without a limit.
pub(crate) type Limit = Option<u32>;

/// What a queued request is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Granted(FencingToken),
    Queued,
    Refused(Refusal),
    /// It was granted, and the hold ended before the request was told.
    Gone,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) ticket: Ticket,
    pub(crate) weight: u32,
    pub(crate) session: SessionId,
    pub(crate) terms: &'a Terms,
}

/// The state of one name.
///
/// Invariants: `used` is the sum of the weights held; whenever the lock is given back, the head of the queue does not
/// fit (unless no limit is stored), so that a free permit never meets a waiter (C5).
#[derive(Debug)]
pub(crate) struct Permits {
    /// Stored by the first operation of the name (C20).
    limit: Option<Limit>,
    used: u64,
    pub(super) holds: Holds,
    queue: Queue,
    last_token: u64,
    /// Of a wait group only.
    pub(crate) generations: Option<Box<Generations>>,
}

impl Permits {
    /// Tokens will be larger than `token_floor` (M2).
    pub(crate) fn new(token_floor: u64, generations: Option<Generations>) -> Self {
        Self {
            limit: None,
            used: 0,
            holds: Holds::default(),
            queue: Queue::default(),
            last_token: token_floor,
            generations: generations.map(Box::new),
        }
    }

    #[inline]
    pub(crate) fn limit(&self) -> Option<Limit> {
        self.limit
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// How many refusals are kept for futures that have not asked.
    #[cfg(test)]
    pub(crate) fn untold(&self) -> usize {
        self.queue.untold()
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn last_token(&self) -> u64 {
        self.last_token
    }

    #[inline]
    pub(crate) fn available(&self) -> u64 {
        match self.limit {
            Some(Some(limit)) => u64::from(limit).saturating_sub(self.used),
            Some(None) => u64::MAX - self.used,
            None => 0,
        }
    }

    /// When a waiter has to look again although nobody woke it.
    #[inline]
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.holds.next_end()
    }

    /// Changes the limit for everybody: up serves waiters, down revokes nobody (S6) and refuses waiters that can never
    /// be served (C20).
    pub(crate) fn set_limit(&mut self, limit: Limit, turn: &mut Turn<'_>) {
        self.limit = Some(limit);
        if let Some(limit) = limit {
            let refusal = Refusal::TooLarge { limit };
            turn.wake_all(self.queue.refuse(refusal, |waiter| waiter.weight > limit));
        }
        self.serve(turn);
    }

    /// Ends the holds whose lease is over.
    #[inline]
    pub(crate) fn reap(&mut self, turn: &mut Turn<'_>) {
        if self.holds.next_end().is_some() {
            self.expire(turn);
        }
    }

    #[cold]
    fn expire(&mut self, turn: &mut Turn<'_>) {
        if self.holds.next_end().is_some_and(|next| next <= turn.at().now) {
            let expired = self.holds.expired(turn.at().now);
            self.end_all(expired, Cause::Expired, turn);
        }
    }

    /// Grants at once, or not at all: never before a waiter (C16).
    #[inline]
    pub(crate) fn try_grant(&mut self, claim: Claim<'_>, turn: &mut Turn<'_>) -> Option<FencingToken> {
        let free = self.queue.is_empty() && self.fits(claim.weight);
        free.then(|| self.grant(claim, turn))
    }

    /// A place at the end of the queue.
    pub(crate) fn arrive(&mut self) -> Arrival {
        self.queue.arrive()
    }

    /// Queues a request; one that lost its hold before it was told goes back to its old place.
    #[inline]
    pub(crate) fn enqueue(&mut self, waiter: Waiter, turn: &mut Turn<'_>) {
        self.queue.insert(waiter);
        self.serve(turn);
    }

    /// Asks for a queued request. A grant's lease begins when the request is told of it.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        arrival: Arrival,
        ticket: Ticket,
        terms: &Terms,
        waker: &Waker,
        turn: &mut Turn<'_>,
    ) -> Progress {
        if let Some(grant) = self.holds.get_mut(ticket) {
            if grant.lease.is_some() {
                grant.since = turn.at().micros;
                grant.lease = terms.lease(turn.at().now);
            }
            Progress::Granted(grant.token)
        } else if let Some(waiter) = self.queue.get_mut(arrival) {
            if !waiter.waker.will_wake(waker) {
                turn.retire(std::mem::replace(&mut waiter.waker, waker.clone()));
            }
            Progress::Queued
        } else if let Some(refusal) = self.queue.take_refusal(arrival) {
            Progress::Refused(refusal)
        } else {
            Progress::Gone
        }
    }

    /// Withdraws a request, whatever became of it (C4).
    pub(crate) fn cancel(&mut self, arrival: Arrival, ticket: Ticket, turn: &mut Turn<'_>) {
        if let Some(waiter) = self.queue.remove(arrival) {
            turn.retire(waiter.waker);
            self.serve(turn);
        } else if let Some(grant) = self.holds.remove(ticket) {
            self.end_one(&grant, Cause::Cancelled, turn);
            self.after_end(turn);
        } else {
            self.queue.take_refusal(arrival);
        }
    }

    /// Whether the guard of that hold may believe in it (C10).
    pub(crate) fn is_held(&self, ticket: Ticket, now: impl FnOnce() -> Instant) -> bool {
        self.holds
            .get(ticket)
            .is_some_and(|grant| grant.lease.as_ref().is_none_or(|lease| now() < lease.deadline))
    }

    pub(crate) fn deadline(&self, ticket: Ticket) -> Option<Instant> {
        self.holds.get(ticket)?.lease.as_ref().map(|lease| lease.deadline)
    }

    /// Ends one hold; `false` if the ticket has none (C11).
    #[inline]
    pub(crate) fn release(&mut self, ticket: Ticket, cause: Cause, turn: &mut Turn<'_>) -> bool {
        self.reap(turn);
        let Some(grant) = self.holds.remove(ticket) else {
            return false;
        };
        self.end_one(&grant, cause, turn);
        self.after_end(turn);
        true
    }

    /// Frees holds that meet a condition, whoever has them, and tells how many.
    pub(crate) fn free(&mut self, condition: impl Fn(&Grant) -> bool, turn: &mut Turn<'_>) -> usize {
        let freed = self.holds.take_if(condition);
        let count = freed.len();
        self.end_all(freed, Cause::Abandoned, turn);
        turn.lost |= count > 0;
        count
    }

    /// Ends the holds of a store object and refuses its waiters (C12).
    pub(crate) fn close(&mut self, session: SessionId, turn: &mut Turn<'_>) {
        turn.wake_all(self.queue.refuse(Refusal::Closed, |waiter| waiter.session == session));
        self.free(|grant| grant.session == session, turn);
        self.serve(turn);
    }

    pub(crate) fn inspect(&self, at: Moment) -> Inspection {
        let waiters = u64::try_from(self.queue.len()).unwrap_or(u64::MAX);
        Inspection::new(self.holds.holders(at), waiters, self.limit.flatten())
    }

    /// Forgets all but the queue, as a store that lost its data. The waiters bring their limit again.
    pub(crate) fn forget(&mut self, turn: &mut Turn<'_>) {
        self.holds = Holds::default();
        (self.limit, self.used, self.last_token) = (None, 0, 0);
        turn.lost = true;
        turn.tell(self.generations.as_mut().and_then(|generations| generations.forget()));
        turn.wake_all(self.queue.wakers());
    }

    /// Until when, in store time, this state matters although nobody has a handle: detached holds, and after the last of
    /// them the outcome (C25).
    pub(crate) fn kept_until(&self, at: Moment) -> Option<u64> {
        let holds = self.holds.iter().filter_map(Grant::end).max();
        let record = self.generations.as_ref().and_then(|generations| generations.kept_until());
        let until = holds.or(record).filter(|until| *until > at.now)?;
        Some(at.micros.saturating_add(micros(until - at.now)).saturating_add(1))
    }

    #[inline]
    fn fits(&self, weight: u32) -> bool {
        self.available() >= u64::from(weight)
    }

    #[inline]
    fn grant(&mut self, claim: Claim<'_>, turn: &mut Turn<'_>) -> FencingToken {
        let Claim { ticket, weight, session, terms } = claim;
        let at = turn.at();
        let (token, lease, terms) = (self.draw_token(at.micros), terms.lease(at.now), terms.clone());
        self.hold(Grant { ticket, token, weight, session, since: at.micros, lease, terms }, turn);
        self.used += u64::from(weight);
        if let Some(generations) = &mut self.generations {
            generations.opened();
        }
        token
    }

    /// Grants to the head of the queue for as long as it fits: a large request is not passed by small ones (S5).
    #[inline]
    fn serve(&mut self, turn: &mut Turn<'_>) {
        while self.queue.head().is_some_and(|head| self.fits(head.weight)) {
            if let Some(waiter) = self.queue.pop() {
                self.grant(waiter.claim(), turn);
                turn.wake(waiter.waker);
            }
        }
    }

    /// Adds a hold. If it ends before all others, those who sleep until an end must look again.
    #[inline]
    pub(super) fn hold(&mut self, grant: Grant, turn: &mut Turn<'_>) {
        let before = self.holds.next_end();
        self.holds.insert(grant);
        if self.holds.next_end().is_some_and(|end| before.is_none_or(|before| end < before)) {
            self.rearm(turn);
        }
    }

    #[cold]
    fn rearm(&self, turn: &mut Turn<'_>) {
        turn.wake_all(self.queue.wakers());
        turn.tell(self.generations.as_ref().and_then(|generations| generations.watched()));
    }

    /// Ends holds that were taken out.
    fn end_all(&mut self, ended: impl IntoIterator<Item = Grant>, cause: Cause, turn: &mut Turn<'_>) {
        ended.into_iter().for_each(|grant| self.end_one(&grant, cause, turn));
        self.after_end(turn);
    }

    #[inline]
    fn end_one(&mut self, grant: &Grant, cause: Cause, turn: &mut Turn<'_>) {
        self.used -= u64::from(grant.weight);
        turn.lost |= cause == Cause::Expired;
        if let Some(generations) = &mut self.generations {
            generations.count(cause, grant.weight);
        }
    }

    /// Ends the generation at zero, and only then serves the queue (W1).
    #[inline]
    fn after_end(&mut self, turn: &mut Turn<'_>) {
        if self.used == 0
            && let Some(generations) = &mut self.generations
            && generations.is_open()
        {
            let now = turn.at().now;
            turn.tell(generations.close(now));
        }
        self.serve(turn);
    }

    #[inline]
    pub(super) fn draw_token(&mut self, micros: u64) -> FencingToken {
        self.last_token = (self.last_token + 1).max(micros).min(FencingToken::LIMIT - 1);
        FencingToken::new(self.last_token).unwrap_or_else(|_| unreachable!("below the limit"))
    }
}
