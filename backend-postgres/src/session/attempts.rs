//! Tries to lock: at most one attempt for each name at a time, on behalf of all requests for it.

use std::collections::HashMap;
use std::sync::Arc;

use stanchion_core::spi::{Acquire, Acquired};
use stanchion_core::{Error, Name, Ticket, Ttl};
use tokio::sync::oneshot;

use super::messages::{ReplySender, TryLock};
use super::reply::fail_all;

/// The attempts that are queued or sent, by name.
#[derive(Debug, Default)]
pub(super) struct Attempts(HashMap<Name, LockAttempt>);

/// A try on behalf of all requests for the mutex. It has at least one request.
#[derive(Debug)]
pub(super) struct LockAttempt {
    /// The number of the attempt, which distinguishes its answer from the late answer to an earlier
    /// one.
    pub(super) number: u64,
    sent: bool,
    /// Whether the try reads which ticket is the first in the queue; otherwise it reads only
    /// whether there is a queue.
    pub(super) reads_queue: bool,
    pub(super) requests: Vec<LockRequest>,
    /// Requests that came after the attempt was sent: its outcome says nothing about them.
    pub(super) later_requests: Vec<LockRequest>,
}

/// A caller's request for a mutex.
#[derive(Debug)]
pub(super) struct LockRequest {
    /// The number of the request.
    pub(super) number: u64,
    pub(super) acquisition: Acquisition,
    /// The ticket was cancelled.
    pub(super) cancelled: bool,
    pub(super) reply: ReplySender<TryOutcome>,
}

/// The outcome of a try for one request.
#[derive(Debug)]
pub(super) enum TryOutcome {
    /// The final answer to the acquisition.
    Answered(Acquired),
    /// Granted to a ticket that has, or may have, a place in the queue. The receiver is notified
    /// once the place is left.
    GrantedFromQueue(Acquired, oneshot::Receiver<()>),
    /// The mutex is not free, or another ticket is the first in the queue. `has_place`: this ticket
    /// is in the queue, as far as is known.
    Refused { has_place: bool },
}

/// The part of an acquisition that a hold or a refusal needs.
#[derive(Clone, Debug)]
pub(super) struct Acquisition {
    pub(super) ticket: Ticket,
    pub(super) lease: Ttl,
    pub(super) label: Option<Arc<str>>,
    /// The ticket joins the queue if it is not granted.
    pub(super) joins_queue: bool,
}

impl Acquisition {
    pub(super) fn of(acquire: &Acquire) -> Self {
        Self {
            ticket: acquire.ticket,
            lease: acquire.lease,
            label: acquire.label.clone(),
            joins_queue: acquire.queue,
        }
    }
}

impl LockAttempt {
    pub(super) fn new(number: u64, reads_queue: bool, requests: Vec<LockRequest>) -> Self {
        Self { number, sent: false, reads_queue, requests, later_requests: Vec::new() }
    }

    /// Returns the attempt as one that reads the queue, also for the requests that came later.
    pub(super) fn reading_queue(mut self) -> Self {
        self.requests.append(&mut self.later_requests);
        Self { sent: false, reads_queue: true, ..self }
    }

    fn all_requests(&mut self) -> impl Iterator<Item = &mut LockRequest> {
        self.requests.iter_mut().chain(&mut self.later_requests)
    }
}

impl Attempts {
    /// Adds a request to the attempt of its name. Returns the request if there is none.
    /// `reads_queue`: the ticket has a place, so the try has to read the queue.
    pub(super) fn join(
        &mut self,
        name: &Name,
        request: LockRequest,
        reads_queue: bool,
    ) -> Option<LockRequest> {
        let Some(attempt) = self.0.get_mut(name) else { return Some(request) };
        if attempt.sent {
            attempt.later_requests.push(request);
        } else {
            attempt.reads_queue |= reads_queue;
            attempt.requests.push(request);
        }
        None
    }

    /// Returns whether somebody waits for the attempt of that number.
    pub(super) fn has(&self, name: &Name, number: u64) -> bool {
        self.0.get(name).is_some_and(|attempt| attempt.number == number)
    }

    pub(super) fn insert(&mut self, name: &Name, attempt: LockAttempt) {
        self.0.insert(name.clone(), attempt);
    }

    /// Marks an attempt as sent. Returns its try for the statement; `None` if no request wants it
    /// any more.
    pub(super) fn mark_sent(
        &mut self,
        name: Name,
        number: u64,
        has_place: impl Fn(Ticket) -> bool,
    ) -> Option<TryLock> {
        let attempt = self.0.get_mut(&name).filter(|attempt| attempt.number == number)?;
        attempt.sent = true;
        let tickets = || attempt.requests.iter().map(|request| request.acquisition.ticket);
        let ticket = tickets().find(|ticket| has_place(*ticket)).or_else(|| tickets().next())?;
        Some(TryLock { name, number, ticket, reads_queue: attempt.reads_queue })
    }

    /// Takes the attempt of that number, whose answer has come or never will.
    pub(super) fn take(&mut self, name: &Name, number: u64) -> Option<LockAttempt> {
        self.0.get(name).filter(|attempt| attempt.number == number)?;
        self.0.remove(name)
    }

    /// Withdraws a request whose caller no longer waits. Returns whether it was certainly not sent.
    pub(super) fn withdraw(&mut self, name: &Name, number: u64) -> bool {
        let Some(attempt) = self.0.get_mut(name) else { return false };
        let unsent = if attempt.sent { None } else { Some(&mut attempt.requests) };
        let mut found = false;
        for requests in unsent.into_iter().chain([&mut attempt.later_requests]) {
            let before = requests.len();
            requests.retain(|request| request.number != number);
            found |= requests.len() < before;
        }
        if attempt.requests.is_empty() {
            self.0.remove(name);
        }
        found
    }

    /// Gives the request of a ticket another caller, for which it waits under the new number.
    /// Returns the reply if the ticket has no request.
    pub(super) fn take_over(
        &mut self,
        name: &Name,
        ticket: Ticket,
        number: u64,
        reply: ReplySender<TryOutcome>,
    ) -> Option<ReplySender<TryOutcome>> {
        let mut requests = self.0.get_mut(name).into_iter().flat_map(LockAttempt::all_requests);
        match requests.find(|request| request.acquisition.ticket == ticket) {
            Some(request) => {
                (request.reply, request.number) = (reply, number);
                None
            }
            None => Some(reply),
        }
    }

    /// Marks the requests of a ticket as cancelled.
    pub(super) fn cancel(&mut self, name: &Name, ticket: Ticket) {
        let requests = self.0.get_mut(name).into_iter().flat_map(LockAttempt::all_requests);
        for request in requests.filter(|request| request.acquisition.ticket == ticket) {
            request.cancelled = true;
        }
    }

    /// Fails an attempt that was not carried out, or may not have been.
    pub(super) fn fail(&mut self, name: &Name, number: u64, error: &Error, unsent: &Error) {
        let Some(LockAttempt { requests, later_requests, .. }) = self.take(name, number) else { return };
        fail_all(requests.into_iter().map(|request| request.reply), error);
        fail_all(later_requests.into_iter().map(|request| request.reply), unsent);
    }
}
