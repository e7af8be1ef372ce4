//! Which holds have a record for other processes to read, or may have one, in the table
//! `session_grants`.

use std::collections::HashSet;

use stanchion_core::{Name, Ticket};

use super::messages::Unlock;

/// Maximum number of records in one request.
pub(super) const MAXIMUM_BATCH: usize = 256;

/// The writes and removals of records.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Holds whose record is being written.
    being_written: HashSet<Ticket>,
    /// Ended holds that may still have a record.
    to_remove: Vec<(Name, Ticket)>,
    /// Ended holds whose record another process may take for the current hold, until its removal
    /// was tried.
    stale: HashSet<(Name, Ticket)>,
}

impl Records {
    pub(super) fn begin_write(&mut self, tickets: impl IntoIterator<Item = Ticket>) {
        self.being_written.extend(tickets);
    }

    /// Completes a write, or its failure. `is_held`: the ticket still, or again, holds the mutex;
    /// otherwise the record is to be removed.
    pub(super) fn end_write(&mut self, name: Name, ticket: Ticket, is_held: bool) {
        self.being_written.remove(&ticket);
        if is_held {
            // The mutex was granted again to the same ticket.
            self.stale.remove(&(name, ticket));
        } else {
            self.remove(name, ticket);
        }
    }

    /// Notes the end of a hold, whose record may be being written.
    pub(super) fn hold_ended(&mut self, name: &Name, ticket: Ticket) {
        if self.being_written.contains(&ticket) {
            self.stale.insert((name.clone(), ticket));
        }
    }

    /// Requests the removal of the record that an ended hold may have.
    pub(super) fn remove_later(&mut self, unlock: &Unlock) {
        if let Some(ticket) = unlock.ticket.filter(|_| unlock.is_recorded) {
            self.remove(unlock.name.clone(), ticket);
        }
    }

    fn remove(&mut self, name: Name, ticket: Ticket) {
        self.stale.insert((name.clone(), ticket));
        self.to_remove.push((name, ticket));
    }

    pub(super) fn has_removals(&self) -> bool {
        !self.to_remove.is_empty()
    }

    /// Takes the records to be removed next.
    pub(super) fn next_removals(&mut self) -> Vec<(Name, Ticket)> {
        let count = self.to_remove.len().min(MAXIMUM_BATCH);
        let mut ended: Vec<_> = self.to_remove.drain(..count).collect();
        ended.sort_unstable();
        ended
    }

    /// Completes an attempt to remove records. Queues those again that are left, and returns
    /// whether there are any.
    pub(super) fn removals_tried(
        &mut self,
        ended: Vec<(Name, Ticket)>,
        is_left: impl Fn(Ticket) -> bool,
    ) -> bool {
        for of in &ended {
            // A record that is being written is removed after that.
            if !self.being_written.contains(&of.1) {
                self.stale.remove(of);
            }
        }
        let before = self.to_remove.len();
        self.to_remove.extend(ended.into_iter().filter(|(_, ticket)| is_left(*ticket)));
        self.to_remove.len() > before
    }

    /// Returns whether one of these mutexes may still have the record of an earlier hold.
    pub(super) fn has_stale<'n>(&self, mut names: impl Iterator<Item = &'n Name>) -> bool {
        !self.stale.is_empty() && names.any(|name| self.stale.iter().any(|(stale, _)| stale == name))
    }
}
