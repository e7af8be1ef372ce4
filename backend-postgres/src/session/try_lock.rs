//! The answers to tries.

use stanchion_core::clock::Instant;
use stanchion_core::spi::Acquired;
use stanchion_core::{FencingToken, Name};

use super::attempts::{LockAttempt, LockRequest, TryOutcome};
use super::lock_table;
use super::messages::{LOCK_TABLE_FULL, NOT_QUEUED, SessionId, TryAnswer, token_of};
use super::reply::{fail_all, granted};
use super::state::{Event, SharedState};

impl SharedState {
    /// Applies the answer to a try that was sent at `sent`.
    pub(super) fn try_lock_answered(
        &mut self,
        id: SessionId,
        name: &Name,
        number: u64,
        answer: TryAnswer,
        sent: Instant,
    ) {
        let token = token_of(answer.code);
        let Some(mut attempt) = self.outbound.attempts.take(name, number) else {
            if token.is_some() {
                self.outbound.unlock_unclaimed(id, name);
            }
            return;
        };
        if let Some(token) = token {
            self.try_lock_granted((id, sent), name, &mut attempt, token, answer);
        } else if answer.code == LOCK_TABLE_FULL {
            let replies = attempt.requests.into_iter().map(|request| request.reply);
            fail_all(replies, &lock_table::full_error());
        } else if answer.code == NOT_QUEUED && !attempt.reads_queue {
            // There is a queue. Requests that do not join it try once more and read the queue, to
            // see whether any process in it is alive.
            attempt.requests.retain(|request| !request.cancelled);
            let joining =
                attempt.requests.extract_if(.., |request| request.acquisition.joins_queue).collect();
            self.refuse_all(joining, false);
            if !attempt.requests.is_empty() {
                return self.outbound.send_attempt(name, attempt.reading_queue());
            }
        } else {
            self.refuse_all(attempt.requests, answer.code == NOT_QUEUED);
        }
        self.try_later_requests(name, attempt.later_requests);
    }

    /// Gives the lock to the request whose turn it is, and refuses the others.
    fn try_lock_granted(
        &mut self,
        (id, sent): (SessionId, Instant),
        name: &Name,
        attempt: &mut LockAttempt,
        token: FencingToken,
        answer: TryAnswer,
    ) {
        let mut requests = std::mem::take(&mut attempt.requests);
        let wants = |request: &LockRequest| {
            !request.cancelled && answer.first_waiter.is_none_or(|first| request.acquisition.ticket == first)
        };
        if let Some(winner) = requests.iter().position(wants) {
            let LockRequest { acquisition, reply, .. } = requests.remove(winner);
            let left = self.places.leave(name, acquisition.ticket);
            self.outbound.lock_table.count_grant();
            let ended = self.holds.add(name, acquisition, id, token, sent);
            self.events.extend(ended.map(Event::Gone));
            drop(reply.send(Ok(match left {
                Some(left) => TryOutcome::GrantedFromQueue(granted(token), left),
                None => TryOutcome::Answered(granted(token)),
            })));
        } else {
            self.outbound.unlock_unclaimed(id, name);
            // The first ticket in the queue is of this process, but no request of it is under way:
            // wake its waiter. If the ticket was cancelled, its cancel wakes the next waiter.
            if let Some(first_waiter) = answer.first_waiter {
                self.events.push(Event::Wake(first_waiter));
                self.places.leave_orphan(name, first_waiter);
            }
        }
        self.refuse_all(requests, false);
    }

    /// Replies to refused requests. `has_no_place`: the server found no place for the first ticket
    /// that was believed to have one. Then the record is lost, or the process was silent for too
    /// long; both concern the other tickets too.
    fn refuse_all(&mut self, requests: Vec<LockRequest>, has_no_place: bool) {
        for request in requests {
            let ticket = request.acquisition.ticket;
            if has_no_place {
                self.places.not_found(ticket);
            }
            let outcome = if request.cancelled {
                TryOutcome::Answered(Acquired::Cancelled)
            } else {
                TryOutcome::Refused { has_place: self.places.epoch(ticket).is_some() }
            };
            drop(request.reply.send(Ok(outcome)));
        }
    }

    /// Handles the requests that came after the try that has now ended: refuses them if this
    /// process holds the mutex, otherwise tries for them.
    fn try_later_requests(&mut self, name: &Name, later: Vec<LockRequest>) {
        if self.holds.get(name).is_some() {
            self.refuse_all(later, false);
        } else if !later.is_empty() {
            let has_place = |request: &LockRequest| self.places.epoch(request.acquisition.ticket).is_some();
            let reads_queue = later.iter().any(has_place);
            self.outbound.begin_attempt(name, reads_queue, later);
        }
    }
}
