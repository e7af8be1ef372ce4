//! The state machine under mutexes, semaphores and wait groups: holds, a limit and a queue. Pure: time is an argument,
//! and wake-ups are gathered, not sent.

use std::task::Waker;

use stanchion_core::clock::Instant;
use stanchion_core::{FencingToken, Inspection, Ticket};

use super::generations::{Cause, Generations};
use super::holds::{Grant, Holds};
use super::queue::{Arrival, Queue, Refusal, Waiter};
use super::signals::Signals;
use super::terms::Terms;
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

    pub(crate) fn limit(&self) -> Option<Limit> {
        self.limit
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn last_token(&self) -> u64 {
        self.last_token
    }

    pub(crate) fn available(&self) -> u64 {
        match self.limit {
            Some(Some(limit)) => u64::from(limit).saturating_sub(self.used),
            Some(None) => u64::MAX - self.used,
            None => 0,
        }
    }

    /// When a waiter has to look again although nobody woke it.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.holds.next_end()
    }

    /// Changes the limit for everybody: up serves waiters, down revokes nobody (S6) and refuses waiters that can never
    /// be served (C20).
    pub(crate) fn set_limit(&mut self, limit: Limit, at: Moment, signals: &mut Signals) {
        self.limit = Some(limit);
        if let Some(limit) = limit {
            let refusal = Refusal::TooLarge { limit };
            signals.wake_all(self.queue.refuse(refusal, |waiter| waiter.weight > limit));
        }
        self.serve(at, signals);
    }

    /// Ends the holds whose lease is over.
    pub(crate) fn reap(&mut self, at: Moment, signals: &mut Signals) {
        let expired = self.holds.expired(at.now);
        self.end_all(expired, Cause::Expired, at, signals);
    }

    /// Grants at once, or not at all: never before a waiter (C16).
    pub(crate) fn try_grant(
        &mut self,
        claim: Claim<'_>,
        at: Moment,
        signals: &mut Signals,
    ) -> Option<FencingToken> {
        let free = self.queue.is_empty() && self.fits(claim.weight);
        free.then(|| self.grant(claim, at, signals))
    }

    /// A place at the end of the queue.
    pub(crate) fn arrive(&mut self) -> Arrival {
        self.queue.arrive()
    }

    /// Queues a request; one that lost its hold before it was told goes back to its old place.
    pub(crate) fn enqueue(&mut self, waiter: Waiter, at: Moment, signals: &mut Signals) {
        self.queue.insert(waiter);
        self.serve(at, signals);
    }

    /// Asks for a queued request. A grant's lease begins when the request is told of it.
    pub(crate) fn poll(
        &mut self,
        arrival: Arrival,
        ticket: Ticket,
        terms: &Terms,
        waker: &Waker,
        now: Instant,
    ) -> Progress {
        if let Some(grant) = self.holds.get_mut(ticket) {
            if grant.lease.is_some() {
                grant.lease = terms.lease(now);
                grant.since = now;
            }
            Progress::Granted(grant.token)
        } else if let Some(waiter) = self.queue.get_mut(arrival) {
            waiter.waker.clone_from(waker);
            Progress::Queued
        } else if let Some(refusal) = self.queue.take_refusal(arrival) {
            Progress::Refused(refusal)
        } else {
            Progress::Gone
        }
    }

    /// Withdraws a request, whatever became of it (C4).
    pub(crate) fn cancel(&mut self, arrival: Arrival, ticket: Ticket, at: Moment, signals: &mut Signals) {
        if self.queue.remove(arrival).is_some() {
            self.serve(at, signals);
        } else if let Some(grant) = self.holds.remove(ticket) {
            self.end_all([grant], Cause::Cancelled, at, signals);
        } else {
            self.queue.take_refusal(arrival);
        }
    }

    /// Whether the guard of that hold may believe in it (C10).
    pub(crate) fn is_held(&self, ticket: Ticket, now: impl FnOnce() -> Instant) -> bool {
        self.holds.get(ticket).is_some_and(|grant| grant.lease.is_none_or(|lease| now() < lease.deadline))
    }

    pub(crate) fn deadline(&self, ticket: Ticket) -> Option<Instant> {
        self.holds.get(ticket)?.lease.map(|lease| lease.deadline)
    }

    /// Ends one hold; `false` if the ticket has none (C11). The clock is read only if something depends on it.
    pub(crate) fn release(
        &mut self,
        ticket: Ticket,
        cause: Cause,
        clock: impl FnOnce() -> Moment,
        signals: &mut Signals,
    ) -> bool {
        if self.queue.is_empty() && self.generations.is_none() && self.holds.next_end().is_none() {
            let grant = self.holds.remove(ticket);
            self.used -= grant.as_ref().map_or(0, |grant| u64::from(grant.weight));
            return grant.is_some();
        }
        let at = clock();
        self.reap(at, signals);
        let grant = self.holds.remove(ticket);
        let found = grant.is_some();
        self.end_all(grant, cause, at, signals);
        found
    }

    /// Frees holds that meet a condition, whoever has them, and tells how many.
    pub(crate) fn free(
        &mut self,
        condition: impl Fn(&Grant) -> bool,
        at: Moment,
        signals: &mut Signals,
    ) -> usize {
        let freed = self.holds.take_if(condition);
        let count = freed.len();
        self.end_all(freed, Cause::Abandoned, at, signals);
        signals.lost |= count > 0;
        count
    }

    /// Ends the holds of a store object and refuses its waiters (C12).
    pub(crate) fn close(&mut self, session: SessionId, at: Moment, signals: &mut Signals) {
        signals.wake_all(self.queue.refuse(Refusal::Closed, |waiter| waiter.session == session));
        self.free(|grant| grant.session == session, at, signals);
        self.serve(at, signals);
    }

    pub(crate) fn inspect(&self, now: Instant) -> Inspection {
        let waiters = u64::try_from(self.queue.len()).unwrap_or(u64::MAX);
        Inspection::new(self.holds.holders(now), waiters, self.limit.flatten())
    }

    /// Forgets all but the queue, as a store that lost its data. The waiters bring their limit again.
    pub(crate) fn forget(&mut self, signals: &mut Signals) {
        self.holds = Holds::default();
        (self.limit, self.used, self.last_token) = (None, 0, 0);
        signals.lost = true;
        signals.generations.extend(self.generations.as_mut().and_then(|generations| generations.forget()));
        signals.wake_all(self.queue.wakers());
    }

    /// Until when, in store time, this state matters to nobody's handle: detached holds and outcomes (C25).
    pub(crate) fn kept_until(&self, at: Moment) -> Option<u64> {
        let holds = self.holds.iter().filter_map(|grant| grant.lease.map(|lease| lease.end)).max();
        let record = self.generations.as_ref().and_then(|generations| generations.kept_until());
        let until = holds.max(record).filter(|until| *until > at.now)?;
        Some(at.micros.saturating_add(micros(until - at.now)).saturating_add(1))
    }

    fn fits(&self, weight: u32) -> bool {
        self.available() >= u64::from(weight)
    }

    fn grant(&mut self, claim: Claim<'_>, at: Moment, signals: &mut Signals) -> FencingToken {
        let Claim { ticket, weight, session, terms } = claim;
        let (token, label) = (self.draw_token(at.micros), terms.label.clone());
        let lease = terms.lease(at.now);
        self.hold(Grant { ticket, token, weight, session, since: at.now, lease, label }, signals);
        self.used += u64::from(weight);
        if let Some(generations) = &mut self.generations {
            generations.opened();
        }
        token
    }

    /// Grants to the head of the queue for as long as it fits: a large request is not passed by small ones (S5).
    fn serve(&mut self, at: Moment, signals: &mut Signals) {
        while self.queue.head().is_some_and(|head| self.fits(head.weight)) {
            if let Some(waiter) = self.queue.pop() {
                self.grant(waiter.claim(), at, signals);
                signals.wake(waiter.waker);
            }
        }
    }

    /// Adds a hold. If it ends before all others, those who sleep until an end must look again.
    pub(super) fn hold(&mut self, grant: Grant, signals: &mut Signals) {
        let before = self.holds.next_end();
        self.holds.insert(grant);
        if self.holds.next_end().is_some_and(|end| before.is_none_or(|before| end < before)) {
            signals.wake_all(self.queue.wakers());
            signals
                .generations
                .extend(self.generations.as_ref().and_then(|generations| generations.watched()));
        }
    }

    /// Counts holds that were taken out, ends the generation at zero, and only then serves the queue (W1).
    fn end_all(
        &mut self,
        ended: impl IntoIterator<Item = Grant>,
        cause: Cause,
        at: Moment,
        signals: &mut Signals,
    ) {
        let mut any = false;
        for grant in ended {
            any = true;
            self.used -= u64::from(grant.weight);
            signals.lost |= cause == Cause::Expired;
            if let Some(generations) = &mut self.generations {
                generations.count(cause, grant.weight);
            }
        }
        if !any {
            return;
        }
        if let Some(generations) = &mut self.generations
            && self.used == 0
        {
            signals.generations.extend(generations.close(at.now));
        }
        self.serve(at, signals);
    }

    pub(super) fn draw_token(&mut self, micros: u64) -> FencingToken {
        self.last_token = (self.last_token + 1).max(micros).min(FencingToken::LIMIT - 1);
        FencingToken::new(self.last_token).unwrap_or_else(|_| unreachable!("below the limit"))
    }
}
