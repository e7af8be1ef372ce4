//! Tries to lock over the current session.

use std::sync::Arc;

use stanchion_core::clock::Instant;
use stanchion_core::spi::Acquired;
use stanchion_core::{Error, ErrorKind, Name, Result};

use super::connection::{LOCK_TABLE_FULL, NOT_QUEUED, TryAnswer, token_of};
use super::lock_sessions::{Event, SharedState};
use super::lock_table;
use super::mutex_state::{LockAttempt, LockRequest, TryOutcome};
use super::requests::granted;
use super::session_state::SessionId;

impl SharedState {
    /// Requests a try over the current session, together with other requests for the same mutex.
    /// `reads_queue`: the ticket has a place, so the try has to read the queue.
    pub(super) fn try_lock(&mut self, name: &Name, request: LockRequest, reads_queue: bool) {
        if let Some(attempt) = self.mutexes.get_mut(name).and_then(|mutex| mutex.attempt.as_mut()) {
            if attempt.sent {
                if let Some(mutex) = self.mutexes.get_mut(name) {
                    mutex.later_requests.push(request);
                }
            } else {
                attempt.reads_queue |= reads_queue;
                attempt.requests.push(request);
            }
            return;
        }
        let number = self.next_number();
        self.queue_attempt(name, LockAttempt { number, sent: false, reads_queue, requests: vec![request] });
    }

    fn queue_attempt(&mut self, name: &Name, attempt: LockAttempt) {
        let (number, current) = (attempt.number, self.current_session());
        self.mutexes.entry(name.clone()).or_default().attempt = Some(attempt);
        if let Some(session) = self.sessions.get_mut(&current) {
            session.try_locks.push((name.clone(), number));
            self.sessions_to_wake.push(Arc::clone(&session.wake));
        }
    }

    /// Withdraws a request whose caller no longer waits. Returns whether it was certainly not sent.
    pub(super) fn withdraw(&mut self, name: &Name, number: u64) -> bool {
        let Some(mutex) = self.mutexes.get_mut(name) else { return false };
        let unsent =
            mutex.attempt.iter_mut().filter(|attempt| !attempt.sent).map(|attempt| &mut attempt.requests);
        let mut found = false;
        for requests in unsent.chain([&mut mutex.later_requests]) {
            let before = requests.len();
            requests.retain(|request| request.number != number);
            found |= requests.len() < before;
        }
        mutex.attempt.take_if(|attempt| attempt.requests.is_empty());
        self.remove_if_idle(name);
        found
    }

    /// Applies the answer to a try that was sent at `sent`.
    pub(super) fn try_lock_answered(
        &mut self,
        id: SessionId,
        name: &Name,
        number: u64,
        answer: TryAnswer,
        sent: Instant,
    ) {
        let mutex = self.mutexes.get_mut(name);
        let attempt = mutex.and_then(|mutex| mutex.attempt.take_if(|attempt| attempt.number == number));
        let Some(mut attempt) = attempt else {
            if token_of(answer.code).is_some() {
                self.unlock_unclaimed(id, name);
            }
            return;
        };
        let wants = |request: &LockRequest| {
            !request.cancelled && answer.first_waiter.is_none_or(|first| request.acquisition.ticket == first)
        };
        match token_of(answer.code) {
            Some(token) => match attempt.requests.iter().position(wants) {
                Some(winner) => {
                    let LockRequest { acquisition, reply, .. } = attempt.requests.remove(winner);
                    let left = self.leave_queue(name, acquisition.ticket);
                    self.add_hold(name, acquisition, id, token, sent);
                    drop(reply.send(Ok(match left {
                        Some(left) => TryOutcome::GrantedFromQueue(granted(token), left),
                        None => TryOutcome::Answered(granted(token)),
                    })));
                    self.refuse_all(attempt.requests, false);
                }
                None => {
                    self.unlock_unclaimed(id, name);
                    // The first ticket in the queue is of this process, but no request of it is under way:
                    // wake its waiter. If the ticket was cancelled, its cancel wakes the next waiter.
                    if let Some(first_waiter) = answer.first_waiter {
                        self.events.push(Event::Wake(first_waiter));
                        self.leave_orphaned_place(name, first_waiter);
                    }
                    self.refuse_all(attempt.requests, false);
                }
            },
            None if answer.code == LOCK_TABLE_FULL => {
                reply_to_all(attempt.requests, &lock_table::full_error())
            }
            None if answer.code == NOT_QUEUED && !attempt.reads_queue => {
                // There is a queue. Requests that do not join it try once more and read the queue, to see
                // whether any process in it is alive.
                attempt.requests.retain(|request| !request.cancelled);
                let joining =
                    attempt.requests.extract_if(.., |request| request.acquisition.joins_queue).collect();
                self.refuse_all(joining, false);
                if !attempt.requests.is_empty() {
                    attempt.sent = false;
                    attempt.reads_queue = true;
                    attempt.requests.append(&mut self.take_later_requests(name));
                    return self.queue_attempt(name, attempt);
                }
            }
            None => self.refuse_all(attempt.requests, answer.code == NOT_QUEUED),
        }
        self.try_later_requests(name);
    }

    /// Replies to refused requests. `has_no_place`: the server found no place for the first ticket that was
    /// believed to have one. Then the record is lost, or the process was silent for too long; both concern
    /// the other tickets too.
    fn refuse_all(&mut self, requests: Vec<LockRequest>, has_no_place: bool) {
        for request in requests {
            let ticket = request.acquisition.ticket;
            if has_no_place && let Some(place) = self.places.get_mut(&ticket) {
                place.epoch = None;
            }
            let has_place = self.queue_epoch(ticket).is_some();
            let outcome = if request.cancelled {
                TryOutcome::Answered(Acquired::Cancelled)
            } else {
                TryOutcome::Refused { has_place }
            };
            drop(request.reply.send(Ok(outcome)));
        }
    }

    /// Fails tries that were not carried out, or may not have been.
    pub(super) fn try_locks_failed(
        &mut self,
        try_locks: impl IntoIterator<Item = (Name, u64)>,
        error: &Error,
    ) {
        for (name, number) in try_locks {
            let mutex = self.mutexes.get_mut(&name);
            let attempt = mutex.and_then(|mutex| mutex.attempt.take_if(|attempt| attempt.number == number));
            if let Some(attempt) = attempt {
                reply_to_all(attempt.requests, error);
                let unsent = Error::new(ErrorKind::Unavailable, "another try of it was not answered");
                reply_to_all(self.take_later_requests(&name), &unsent);
            }
            self.remove_if_idle(&name);
        }
    }

    /// Handles the requests that came after the try that has now ended: refuses them if this process holds
    /// the mutex, otherwise tries for them.
    fn try_later_requests(&mut self, name: &Name) {
        let later = self.take_later_requests(name);
        if self.mutexes.get(name).is_some_and(|mutex| mutex.held.is_some()) {
            self.refuse_all(later, false);
        } else if !later.is_empty() {
            let reads_queue =
                later.iter().any(|request| self.queue_epoch(request.acquisition.ticket).is_some());
            let number = self.next_number();
            self.queue_attempt(name, LockAttempt { number, sent: false, reads_queue, requests: later });
        }
    }

    fn take_later_requests(&mut self, name: &Name) -> Vec<LockRequest> {
        self.mutexes.get_mut(name).map(|mutex| std::mem::take(&mut mutex.later_requests)).unwrap_or_default()
    }
}

fn reply_to_all(requests: Vec<LockRequest>, error: &Error) {
    for request in requests {
        let answer: Result<TryOutcome> = Err(error.replicate());
        drop(request.reply.send(answer));
    }
}
