//! The state machine under mutexes, semaphores and wait groups: holds, a limit and a queue. It is
//! pure: time is an argument, and wake-ups are gathered, not sent.

use std::task::Waker;
use std::time::Duration;

use stanchion_core::clock::{self, Instant, micros};
use stanchion_core::observe::events::LossCause;
use stanchion_core::{FencingToken, Ticket};

use super::claim::Claim;
use super::generations::{Cause, Generations};
use super::holds::{Grant, Holds, OFFER};
use super::queue::{Arrival, Queue, Refusal, Waiter};
use super::terms::Terms;
use super::transition::Transition;
use crate::clock::Moment;
use crate::session_id::SessionId;

/// Maximum number of permits held at once; `None` for a wait group without a limit.
pub(crate) type Limit = Option<u32>;

/// The progress of a queued request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Granted(FencingToken),
    Queued,
    Refused(Refusal),
    /// It was granted, and the hold ended before the request was polled.
    Gone,
}

/// The state of one name.
///
/// Invariants: `used` is the sum of the held weights. Whenever the lock is released, the head of
/// the queue does not fit (unless no limit is stored), so that no permit is free while a waiter
/// could use it (C5).
#[derive(Debug)]
pub(crate) struct Permits {
    /// Stored by the first operation of the name (C20).
    limit: Option<Limit>,
    used: u64,
    pub(super) holds: Holds,
    pub(super) queue: Queue,
    last_token: u64,
    /// Present for a wait group only.
    pub(crate) generations: Option<Box<Generations>>,
    /// Waiters watch the ends of leases themselves: they wait by a clock that the store cannot
    /// watch.
    pub(crate) waiters_watch: bool,
    /// Retention of the limit without a handle; `None` if it is no parameter.
    limit_retention: Option<Duration>,
    /// When the limit was used last: by a grant, or by a hold until its end.
    pub(super) limit_used: Option<Instant>,
}

impl Permits {
    /// Creates a state whose tokens are larger than `token_floor` (M2).
    pub(crate) fn new(
        token_floor: u64,
        generations: Option<Generations>,
        limit_retention: Option<Duration>,
    ) -> Self {
        Self {
            limit: None,
            used: 0,
            holds: Holds::default(),
            queue: Queue::default(),
            last_token: token_floor,
            generations: generations.map(Box::new),
            waiters_watch: false,
            limit_retention,
            limit_used: None,
        }
    }

    #[inline]
    pub(crate) fn limit(&self) -> Option<Limit> {
        self.limit
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Returns the number of refusals kept for futures that were not polled since.
    #[cfg(test)]
    pub(crate) fn undelivered_refusals(&self) -> usize {
        self.queue.undelivered_refusals()
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn last_token(&self) -> u64 {
        self.last_token
    }

    /// Returns the number of permits that are free under a limit.
    #[inline]
    pub(crate) fn free(&self, limit: Limit) -> u64 {
        limit.map_or(u64::MAX, u64::from).saturating_sub(self.used)
    }

    /// Returns when the next lease ends.
    #[inline]
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.holds.next_end()
    }

    /// Changes the limit for all callers. A larger limit serves waiters. A smaller one revokes no
    /// hold (S6) and refuses waiters that can never be served (C20).
    pub(crate) fn set_limit(&mut self, limit: Limit, transition: &mut Transition<'_>) {
        self.limit = Some(limit);
        self.limit_used = self.limit_retention.map(|_| transition.at().now);
        if let Some(limit) = limit {
            let refusal = Refusal::TooLarge { limit };
            transition.wake_all(self.queue.refuse(refusal, |waiter| waiter.weight > limit));
        }
        self.serve(transition);
    }

    /// Ends the holds whose lease has ended.
    #[inline]
    pub(crate) fn reap(&mut self, transition: &mut Transition<'_>) {
        if self.holds.next_end().is_some() {
            self.expire(transition);
        }
    }

    #[cold]
    fn expire(&mut self, transition: &mut Transition<'_>) {
        if self.holds.next_end().is_some_and(|next| next <= transition.at().now) {
            let expired = self.holds.expired(transition.at().now);
            self.lose_all(expired, (Cause::Expired, LossCause::Deadline), transition);
        }
    }

    /// Ends holds that were taken out, and that their guards lose. Nobody had one whose future was
    /// not polled (W4).
    fn lose_all(
        &mut self,
        ended: Vec<Grant>,
        (cause, loss): (Cause, LossCause),
        transition: &mut Transition<'_>,
    ) {
        for grant in &ended {
            transition.lose(grant, loss);
            self.end_one(grant, if grant.is_offered() { Cause::Cancelled } else { cause }, transition);
        }
        self.after_end(transition);
    }

    /// Grants at once, or not at all; never ahead of a waiter (C16).
    #[inline]
    pub(crate) fn try_grant(
        &mut self,
        claim: Claim<'_>,
        transition: &mut Transition<'_>,
    ) -> Option<FencingToken> {
        let free = self.queue.is_empty() && self.fits(claim.weight);
        free.then(|| self.grant(claim, None, transition))
    }

    /// Returns an arrival number at the end of the queue.
    pub(crate) fn arrive(&mut self) -> Arrival {
        self.queue.arrive()
    }

    /// Queues a request. A request that lost its hold before it was polled goes back to its old
    /// place.
    #[inline]
    pub(crate) fn enqueue(&mut self, waiter: Waiter, transition: &mut Transition<'_>) {
        self.queue.insert(waiter);
        self.serve(transition);
    }

    /// Returns the progress of a queued request. The lease of a grant begins at this poll.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        arrival: Arrival,
        ticket: Ticket,
        terms: &Terms,
        waker: &Waker,
        transition: &mut Transition<'_>,
    ) -> Progress {
        if let Some(grant) = self.holds.get_mut(ticket) {
            grant.offered_until = None;
            if grant.lease.is_some() {
                grant.since = transition.at().micros;
                grant.lease = terms.lease(transition.at().now);
            }
            Progress::Granted(grant.token)
        } else if let Some(waiter) = self.queue.get_mut(arrival) {
            if !waiter.waker.will_wake(waker) {
                transition.retire(std::mem::replace(&mut waiter.waker, waker.clone()));
            }
            Progress::Queued
        } else if let Some(refusal) = self.queue.take_refusal(arrival) {
            Progress::Refused(refusal)
        } else {
            Progress::Gone
        }
    }

    /// Withdraws a request in any state (C4).
    pub(crate) fn cancel(&mut self, arrival: Arrival, ticket: Ticket, transition: &mut Transition<'_>) {
        if let Some(waiter) = self.queue.remove(arrival) {
            transition.retire(waiter.waker);
            self.serve(transition);
        } else if let Some(grant) = self.holds.remove(ticket) {
            self.end_one(&grant, Cause::Cancelled, transition);
            self.after_end(transition);
        } else {
            self.queue.take_refusal(arrival);
        }
    }

    /// Returns whether the guard of this hold may still rely on it (C10).
    pub(crate) fn is_held(&self, ticket: Ticket, now: impl FnOnce() -> Instant) -> bool {
        self.holds
            .get(ticket)
            .is_some_and(|grant| grant.lease.as_ref().is_none_or(|lease| now() < lease.deadline))
    }

    pub(crate) fn deadline(&self, ticket: Ticket) -> Option<Instant> {
        self.holds.get(ticket)?.lease.as_ref().map(|lease| lease.deadline)
    }

    /// Ends one hold; returns `false` if the ticket has none (C11).
    #[inline]
    pub(crate) fn release(&mut self, ticket: Ticket, cause: Cause, transition: &mut Transition<'_>) -> bool {
        self.reap(transition);
        let Some(grant) = self.holds.remove(ticket) else {
            return false;
        };
        self.end_one(&grant, cause, transition);
        self.after_end(transition);
        true
    }

    /// Ends every hold that meets a condition, as abandoned, and returns their number.
    pub(crate) fn end_where(
        &mut self,
        condition: impl Fn(&Grant) -> bool,
        cause: LossCause,
        transition: &mut Transition<'_>,
    ) -> usize {
        let ended = self.holds.take_if(condition);
        let count = ended.len();
        self.lose_all(ended, (Cause::Abandoned, cause), transition);
        count
    }

    /// Ends the holds of a store object and refuses its waiters (C12).
    pub(crate) fn close(&mut self, session: SessionId, transition: &mut Transition<'_>) {
        transition.wake_all(self.queue.refuse(Refusal::Closed, |waiter| waiter.session == session));
        self.end_where(|grant| grant.session == session, LossCause::Closed, transition);
        self.serve(transition);
    }

    /// Forgets everything except the queue, as a store that lost its data. The waiters store their
    /// limit again.
    pub(crate) fn forget(&mut self, transition: &mut Transition<'_>) {
        self.holds.take_if(|_| true).iter().for_each(|grant| transition.lose(grant, LossCause::Gone));
        self.holds = Holds::default();
        (self.limit, self.used, self.last_token, self.limit_used) = (None, 0, 0, None);
        transition.lost = true;
        transition.wake_waiters_of(self.generations.as_mut().and_then(|generations| generations.forget()));
        transition.wake_all(self.queue.wakers());
    }

    /// Returns until when, in store time, this state stays without a handle: for detached holds,
    /// and after the last of them for the limit and the outcome (C25).
    pub(crate) fn retained_until(&self, at: Moment) -> Option<u64> {
        let holds = self.holds.iter().filter_map(Grant::end).max();
        let record = self.generations.as_ref().and_then(|generations| generations.retained_until());
        let limit = self
            .limit_used
            .zip(self.limit_retention)
            .and_then(|(used, retention)| used.checked_add(retention));
        let until = holds.or(record.max(limit)).filter(|until| *until > at.now)?;
        Some(at.micros.saturating_add(micros(until - at.now)).saturating_add(1))
    }

    #[inline]
    fn fits(&self, weight: u32) -> bool {
        self.limit.is_some_and(|limit| self.free(limit) >= u64::from(weight))
    }

    #[inline]
    fn grant(
        &mut self,
        claim: Claim<'_>,
        offered_until: Option<Instant>,
        transition: &mut Transition<'_>,
    ) -> FencingToken {
        let Claim { ticket, weight, session, terms } = claim;
        let at = transition.at();
        let (token, lease, terms) = (self.draw_token(at.micros), terms.lease(at.now), terms.clone());
        let since = at.micros;
        self.hold(Grant { ticket, token, weight, session, since, lease, offered_until, terms }, transition);
        self.used += u64::from(weight);
        self.limit_used = self.limit_retention.map(|_| at.now);
        if let Some(generations) = &mut self.generations {
            generations.opened();
        }
        token
    }

    /// Grants to the head of the queue as long as it fits: small requests do not pass a large one
    /// (S5).
    #[inline]
    fn serve(&mut self, transition: &mut Transition<'_>) {
        while self.queue.head().is_some_and(|head| self.fits(head.weight)) {
            if let Some(waiter) = self.queue.pop() {
                let offered_until = transition.at().now.checked_add(OFFER);
                self.grant(waiter.claim(), offered_until, transition);
                transition.wake(waiter.waker);
            }
        }
    }

    /// Adds a hold. If it ends before all others, its end has to be watched.
    #[inline]
    pub(super) fn hold(&mut self, grant: Grant, transition: &mut Transition<'_>) {
        let before = self.holds.next_end();
        self.holds.insert(grant);
        if self.holds.next_end().is_some_and(|end| before.is_none_or(|before| end < before)) {
            self.rearm(transition);
        }
    }

    #[cold]
    fn rearm(&self, transition: &mut Transition<'_>) {
        let watched = self.generations.as_ref().and_then(|generations| generations.watched());
        if !self.queue.is_empty() || watched.is_some() {
            transition.next_end = self.holds.next_end();
        }
        if self.waiters_watch {
            transition.wake_all(self.queue.wakers());
            transition.wake_waiters_of(watched);
        }
    }

    /// Has the end of the next lease watched for a waiter; returns it if the waiter has to watch it
    /// itself, since its runtime has a clock of its own, as a test with paused time has.
    pub(crate) fn expect_end(&mut self, transition: &mut Transition<'_>) -> Option<Instant> {
        if clock::is_real() {
            transition.next_end = self.next_end();
            return None;
        }
        self.waiters_watch = true;
        self.next_end()
    }

    /// Ends the holds whose lease has ended, and has the next end watched while a caller waits for
    /// it.
    pub(crate) fn watch(&mut self, transition: &mut Transition<'_>) {
        self.reap(transition);
        self.rearm(transition);
    }

    #[inline]
    fn end_one(&mut self, grant: &Grant, cause: Cause, transition: &mut Transition<'_>) {
        self.used -= u64::from(grant.weight);
        if self.limit_retention.is_some() {
            // The end of a lease may be noticed long after it.
            let lease = grant.end().filter(|_| cause == Cause::Expired);
            let ended = lease.or_else(|| (self.used == 0).then(|| transition.at().now));
            self.limit_used = self.limit_used.max(ended);
        }
        if let Some(generations) = &mut self.generations {
            generations.count(cause, grant.weight);
        }
    }

    /// Ends the generation at zero, and only then serves the queue (W1).
    #[inline]
    fn after_end(&mut self, transition: &mut Transition<'_>) {
        if self.used == 0
            && let Some(generations) = &mut self.generations
            && generations.is_open()
        {
            let now = transition.at().now;
            transition.wake_waiters_of(generations.close(now));
        }
        self.serve(transition);
    }

    #[inline]
    pub(super) fn draw_token(&mut self, micros: u64) -> FencingToken {
        self.last_token = (self.last_token + 1).max(micros).min(FencingToken::LIMIT - 1);
        FencingToken::new(self.last_token).unwrap_or_else(|_| unreachable!("below the limit"))
    }
}
