//! Tickets that are refused until a time (C4).

use std::collections::HashMap;

use stanchion_core::Ticket;
use stanchion_core::clock::{Instant, now};

/// Minimum number of tombstones at which expired ones are removed.
const MINIMUM_PURGE_THRESHOLD: usize = 64;

/// Refused tickets, and the end of each refusal.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    ends: HashMap<Ticket, Instant>,
    /// Expired tombstones are removed when the number of tombstones reaches this.
    purge_threshold: usize,
}

impl Tombstones {
    /// Refuses a ticket from now until `until`.
    pub(super) fn add(&mut self, ticket: Ticket, until: Instant) {
        if self.ends.len() >= self.purge_threshold {
            let at = now();
            self.ends.retain(|_, until| at < *until);
            self.purge_threshold = (2 * self.ends.len()).max(MINIMUM_PURGE_THRESHOLD);
        }
        self.ends.insert(ticket, until);
    }

    pub(super) fn contains(&self, ticket: Ticket, at: Instant) -> bool {
        self.ends.get(&ticket).is_some_and(|until| at < *until)
    }
}
