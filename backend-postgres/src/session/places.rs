//! The places of this process in the queues: of its waiters, of waiters that it does not know any
//! more, and of users' transactions.

use std::collections::{HashMap, HashSet};

use stanchion_core::spi::{Acquire, Acquired, Polled};
use stanchion_core::{ErrorKind, Name, Result, Ticket};
use tokio::sync::oneshot;

use super::leave_requests::LeaveRequests;

/// The places in the queues.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Tickets that have a place, or may have one.
    places: HashMap<Ticket, Place>,
    /// For each name, the tickets that the last poll found ready and that this process does not
    /// know.
    orphaned: HashMap<Name, Vec<Ticket>>,
    /// The turns of users' transactions. A turn is not a hold of a session.
    turns: HashMap<Ticket, TransactionTurn>,
    pub(super) leaving: LeaveRequests,
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// The epoch of the record that has the place; `None` if it is not certain that there is one.
    epoch: Option<u64>,
    /// Number of unanswered requests to join the queue: copies of them may be under way.
    unanswered: u32,
}

/// The turn of a user's transaction.
#[derive(Debug)]
struct TransactionTurn {
    name: Name,
    /// The store may know of it: the turn is waited for, is granted, or is in doubt.
    may_be_there: bool,
}

impl Places {
    /// Returns the epoch of the record in which the ticket has its place; `None` if it is not
    /// certain to have one.
    pub(super) fn epoch(&self, ticket: Ticket) -> Option<u64> {
        self.places.get(&ticket)?.epoch
    }

    /// Returns whether a waiter of this process has the place of the ticket, or may have it.
    pub(super) fn contains(&self, ticket: Ticket) -> bool {
        self.places.contains_key(&ticket)
    }

    /// Returns whether the ticket may have a place in the queue, also if no waiter has it.
    pub(super) fn may_have_place(&self, name: &Name, ticket: Ticket) -> bool {
        self.contains(ticket) || self.orphaned.get(name).is_some_and(|tickets| tickets.contains(&ticket))
    }

    /// Notes that the server found no place for the ticket. There may be one all the same.
    pub(super) fn not_found(&mut self, ticket: Ticket) {
        if let Some(place) = self.places.get_mut(&ticket) {
            place.epoch = None;
        }
    }

    /// Notes that a request of the ticket to join the queue, or to leave it, is sent.
    pub(super) fn joining(&mut self, ticket: Ticket) {
        self.places.entry(ticket).or_default().unanswered += 1;
    }

    /// Applies the answer to such a request. Returns whether the ticket waits at its place.
    pub(super) fn joined(&mut self, ask: &Acquire, answer: &Result<Acquired>) -> bool {
        // There is no place if the ticket was cancelled meanwhile.
        let mut place = self.places.get_mut(&ask.ticket);
        let is_answered = answer.as_ref().err().is_none_or(|error| error.kind() != ErrorKind::Unknown);
        if let Some(place) = &mut place {
            place.unanswered = place.unanswered.saturating_sub(u32::from(is_answered));
        }
        match answer {
            Ok(Acquired::Waiting { epoch, .. }) if ask.queue => {
                if let Some(place) = place {
                    place.epoch = Some(*epoch);
                }
                return true;
            }
            Err(_) if place.as_ref().is_some_and(|place| place.unanswered > 0 || place.epoch.is_some()) => {}
            _ => drop(self.places.remove(&ask.ticket)),
        }
        false
    }

    /// Notes that the place of a cancelled ticket is gone.
    pub(super) fn cancelled(&mut self, name: &Name, ticket: Ticket) {
        self.places.remove(&ticket);
        self.orphaned.remove(name);
    }

    /// Requests to leave the place of a ticket that no longer waits; `None` if it has none.
    pub(super) fn leave(&mut self, name: &Name, ticket: Ticket) -> Option<oneshot::Receiver<()>> {
        let join_in_doubt = self.places.remove(&ticket)?.unanswered > 0;
        Some(self.leaving.add(name, ticket, join_in_doubt))
    }

    /// Requests to leave the place of a ticket, unless a waiter of this process has it.
    pub(super) fn leave_orphan(&mut self, name: &Name, ticket: Ticket) {
        if !self.contains(ticket) {
            self.leaving.add_orphan(name, ticket);
        }
    }

    /// Keeps those ready tickets of a poll for which a try is of use, and notes the ones that this
    /// process does not know. None is of use while this process holds the mutex.
    pub(super) fn polled(&mut self, name: &Name, polled: &mut Polled, is_held: bool) {
        if is_held {
            polled.ready.clear();
        }
        polled.ready.retain(|ticket| !self.leaving.contains(*ticket));
        self.orphaned.remove(name);
        self.add_orphans(name, &polled.ready);
    }

    /// Notes the ready tickets that this process does not know: a cancel of one of them has to
    /// reach the queue.
    pub(super) fn add_orphans(&mut self, name: &Name, ready: &[Ticket]) {
        let is_unknown = |ticket: &&Ticket| !self.contains(**ticket) && !self.is_turn(**ticket);
        let unknown: Vec<_> = ready.iter().filter(is_unknown).copied().collect();
        if !unknown.is_empty() {
            self.orphaned.entry(name.clone()).or_default().extend(unknown);
        }
    }

    /// Notes that a turn of a user's transaction is requested.
    pub(super) fn add_turn(&mut self, ask: &Acquire) {
        let turn = || TransactionTurn { name: ask.object.name.clone(), may_be_there: false };
        self.turns.entry(ask.ticket).or_insert_with(turn);
    }

    pub(super) fn is_turn(&self, ticket: Ticket) -> bool {
        self.turns.contains_key(&ticket)
    }

    pub(super) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Returns the names that transactions have a turn of, or wait for.
    pub(super) fn turn_names(&self) -> HashSet<Name> {
        self.turns.values().map(|turn| turn.name.clone()).collect()
    }

    /// Applies the answer to the request of a turn. A turn that is certainly neither granted nor
    /// waiting is removed.
    pub(super) fn turn_answered(&mut self, ask: &Acquire, answer: &Result<Acquired>) {
        let is_there = match answer {
            Ok(Acquired::Granted { .. }) => true,
            Ok(Acquired::Waiting { .. }) => ask.queue,
            Ok(_) => false,
            Err(error) => error.kind() == ErrorKind::Unknown,
        };
        let Some(turn) = self.turns.get_mut(&ask.ticket) else { return };
        turn.may_be_there |= is_there;
        if !turn.may_be_there || matches!(answer, Ok(Acquired::Cancelled)) {
            self.turns.remove(&ask.ticket);
        }
    }

    pub(super) fn turn_ended(&mut self, ticket: Ticket) {
        self.turns.remove(&ticket);
    }
}
