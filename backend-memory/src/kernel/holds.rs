//! The live holds of one name.

use std::collections::HashMap;
use std::time::Duration;

use stanchion_core::clock::Instant;
use stanchion_core::{FencingToken, Holder, Ticket};

use super::terms::{Lease, Terms};
use crate::clock::Moment;
use crate::session_id::SessionId;

/// How long a hold waits for the poll of the future that it was granted to: then it is the next
/// one's (C6).
pub(super) const OFFER: Duration = Duration::from_secs(30);

/// One hold.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) ticket: Ticket,
    pub(crate) token: FencingToken,
    pub(crate) weight: u32,
    /// The store object of its guard; [`SessionId::NONE`] while the hold is detached.
    pub(crate) session: SessionId,
    /// Store time of the grant, in µs.
    pub(crate) since: u64,
    pub(crate) lease: Option<Box<Lease>>,
    /// Until when it waits for the poll of the future that it was granted to; `None` once it was
    /// handed out.
    pub(crate) offered_until: Option<Instant>,
    /// The terms of the handle, for the label.
    pub(crate) terms: Terms,
}

impl Grant {
    pub(crate) fn is_detached(&self) -> bool {
        self.session == SessionId::NONE
    }

    /// Returns whether the future that it was granted to has not been polled since.
    pub(super) fn is_offered(&self) -> bool {
        self.offered_until.is_some()
    }

    pub(crate) fn end(&self) -> Option<Instant> {
        self.lease.as_ref().map(|lease| lease.end)
    }

    /// Returns when it ends, unless its future is polled before.
    fn next_end(&self) -> Option<Instant> {
        let end = self.end();
        self.offered_until.map_or(end, |offered| Some(end.map_or(offered, |end| end.min(offered))))
    }

    fn is_over(&self, now: Instant) -> bool {
        self.next_end().is_some_and(|end| end <= now)
    }

    pub(super) fn holder(&self, at: Moment) -> Holder {
        let age = Duration::from_micros(at.micros.saturating_sub(self.since));
        let mut holder = Holder::new(self.ticket, self.token, self.weight, age);
        holder.label = self.terms.label().map(str::to_owned);
        holder.lease_left = self.next_end().map(|end| end.saturating_duration_since(at.now));
        holder
    }
}

/// A set of holds by ticket. The first one lives inline, so that a mutex never allocates for its
/// holder.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    first: Option<Grant>,
    rest: HashMap<Ticket, Grant>,
    /// Lower bound on the next end of a hold: it may be too early, never too late.
    next_end: Option<Instant>,
}

impl Holds {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.first.iter().chain(self.rest.values())
    }

    #[inline]
    pub(crate) fn get(&self, ticket: Ticket) -> Option<&Grant> {
        match &self.first {
            Some(grant) if grant.ticket == ticket => Some(grant),
            _ if self.rest.is_empty() => None,
            _ => self.rest.get(&ticket),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Grant> {
        match &mut self.first {
            Some(grant) if grant.ticket == ticket => Some(grant),
            _ if self.rest.is_empty() => None,
            _ => self.rest.get_mut(&ticket),
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, grant: Grant) {
        if let Some(end) = grant.next_end() {
            self.next_end = Some(self.next_end.map_or(end, |next| next.min(end)));
        }
        if self.first.is_none() {
            self.first = Some(grant);
        } else {
            self.rest.insert(grant.ticket, grant);
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Grant> {
        match &self.first {
            Some(grant) if grant.ticket == ticket => self.first.take(),
            _ if self.rest.is_empty() => None,
            _ => self.rest.remove(&ticket),
        }
    }

    /// Returns the next time at which a hold may end.
    #[inline]
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.next_end
    }

    /// Takes out the holds that have ended, and computes the exact next end.
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<Grant> {
        let expired = self.take_if(|grant| grant.is_over(now));
        self.next_end = self.iter().filter_map(Grant::next_end).min();
        expired
    }

    /// Takes out the holds that meet a condition.
    pub(crate) fn take_if(&mut self, condition: impl Fn(&Grant) -> bool) -> Vec<Grant> {
        let mut taken: Vec<Grant> =
            self.rest.extract_if(|_, grant| condition(grant)).map(|(_, grant)| grant).collect();
        taken.extend(self.first.take_if(|grant| condition(grant)));
        taken
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }
}
