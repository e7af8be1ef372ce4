//! The mutexes that this process holds, and what is left of holds that ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::Instant;
use stanchion_core::spi::Kept;
use stanchion_core::{FencingToken, Name, Result, Ticket};
use tokio::sync::oneshot;

use super::attempts::Acquisition;
use super::messages::{SessionId, Unlock};
use super::records::{MAXIMUM_BATCH, Records};
use super::tombstones::Tombstones;
use super::unlocks::Unlocks;
use crate::steps::GrantRecord;

/// Minimum age of a hold that is recorded.
const MINIMUM_RECORDED_AGE: Duration = Duration::from_millis(300);

/// The holds of this process. While it holds a mutex, none of its sessions may be granted it again.
///
/// Every hold is of a session that has not ended: the end of a session ends its holds.
#[derive(Debug, Default)]
pub(super) struct Holds {
    held: HashMap<Name, SessionHold>,
    /// Number of holds of each session.
    counts: HashMap<SessionId, usize>,
    pub(super) tombstones: Tombstones,
    pub(super) unlocks: Unlocks,
    pub(super) records: Records,
    /// The earliest time at which a lease may expire.
    next_expiry: Option<Instant>,
    /// The next expiry is earlier than before.
    is_earlier: bool,
    /// There may be holds that are not recorded yet.
    has_unrecorded: bool,
}

/// A hold of this process.
#[derive(Debug)]
pub(super) struct SessionHold {
    pub(super) ticket: Ticket,
    pub(super) token: FencingToken,
    pub(super) label: Option<Arc<str>>,
    pub(super) session: SessionId,
    pub(super) since: Instant,
    /// The end of the lease.
    pub(super) until: Instant,
    /// The hold is recorded, or is being recorded.
    is_recorded: bool,
}

/// How the end of a hold goes on.
#[derive(Debug)]
pub(super) struct HoldEnd {
    /// The session that unlocks the mutex.
    pub(super) session: SessionId,
    /// The unlock to send; `None` if it is under way.
    pub(super) unlock: Option<Unlock>,
    pub(super) answer: oneshot::Receiver<Result<Kept>>,
}

impl Holds {
    /// Returns the hold of a mutex.
    pub(super) fn get(&self, name: &Name) -> Option<&SessionHold> {
        self.held.get(name)
    }

    /// Returns the hold of a mutex if it is that ticket's.
    pub(super) fn of(&self, name: &Name, ticket: Ticket) -> Option<&SessionHold> {
        self.held.get(name).filter(|held| held.ticket == ticket)
    }

    /// Returns whether a session holds anything that is not being unlocked.
    pub(super) fn any_of(&self, session: SessionId) -> bool {
        self.counts.contains_key(&session)
    }

    /// Adds a hold that was granted by a statement sent at `sent`. Returns the ticket of the hold
    /// that was there before: the server has ended its session, and the engine has not heard of
    /// that yet.
    pub(super) fn add(
        &mut self,
        name: &Name,
        acquisition: Acquisition,
        session: SessionId,
        token: FencingToken,
        sent: Instant,
    ) -> Option<Ticket> {
        let Acquisition { ticket, lease, label, .. } = acquisition;
        let until = sent + lease.get();
        if self.next_expiry.is_none_or(|next_expiry| until < next_expiry) {
            (self.next_expiry, self.is_earlier) = (Some(until), true);
        }
        *self.counts.entry(session).or_default() += 1;
        self.has_unrecorded = true;
        let held = SessionHold { ticket, token, label, session, since: sent, until, is_recorded: false };
        let ended = self.held.insert(name.clone(), held)?;
        self.count_end(ended.session);
        (ended.ticket != ticket).then_some(ended.ticket)
    }

    fn count_end(&mut self, session: SessionId) {
        if let Some(count) = self.counts.get_mut(&session) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&session);
            }
        }
    }

    /// Sets the lease of a hold anew, unless it ends later. Returns the token; `None` if the ticket
    /// does not hold the mutex.
    pub(super) fn renew(&mut self, name: &Name, ticket: Ticket, until: Instant) -> Option<FencingToken> {
        let held = self.held.get_mut(name).filter(|held| held.ticket == ticket)?;
        held.until = held.until.max(until);
        Some(held.token)
    }

    /// Ends a hold; `None` if there is none. If its unlock is under way, the answer is that
    /// unlock's.
    pub(super) fn end(&mut self, name: &Name, ticket: Ticket) -> Option<HoldEnd> {
        if let Some((session, answer)) = self.unlocks.wait(ticket) {
            return Some(HoldEnd { session, unlock: None, answer });
        }
        self.of(name, ticket)?;
        let SessionHold { session, is_recorded, .. } = self.held.remove(name)?;
        self.count_end(session);
        self.records.hold_ended(name, ticket);
        self.unlocks.begin(ticket, session);
        let (session, answer) = self.unlocks.wait(ticket)?;
        let unlock = Unlock { name: name.clone(), ticket: Some(ticket), is_recorded };
        Some(HoldEnd { session, unlock: Some(unlock), answer })
    }

    /// Returns the holds whose lease has ended (C8).
    pub(super) fn expired(&mut self, at: Instant) -> Vec<(Name, Ticket)> {
        if self.next_expiry.is_none_or(|next_expiry| next_expiry > at) {
            return Vec::new();
        }
        self.next_expiry = self.held.values().map(|held| held.until).filter(|until| *until > at).min();
        let expired = self.held.iter().filter(|(_, held)| held.until <= at);
        expired.map(|(name, held)| (name.clone(), held.ticket)).collect()
    }

    /// Returns when a lease may expire, for a caller that waits until then.
    pub(super) fn next_expiry(&mut self) -> Option<Instant> {
        self.is_earlier = false;
        self.next_expiry
    }

    /// Returns whether the next expiry is earlier than when this was last asked.
    pub(super) fn take_is_earlier(&mut self) -> bool {
        std::mem::take(&mut self.is_earlier)
    }

    /// Ends all holds of a session that has ended. Returns their tickets.
    pub(super) fn session_closed(&mut self, id: SessionId) -> Vec<Ticket> {
        self.counts.remove(&id);
        self.held.extract_if(|_, held| held.session == id).map(|(_, held)| held.ticket).collect()
    }

    /// Returns whether there are holds that were not recorded when this was last asked.
    pub(super) fn take_has_unrecorded(&mut self) -> bool {
        std::mem::take(&mut self.has_unrecorded)
    }

    /// Returns the records to be written next, of the oldest holds first, and the number of
    /// unrecorded holds.
    pub(super) fn unrecorded(
        &mut self,
        at: Instant,
        pid: impl Fn(SessionId) -> Option<i32>,
    ) -> (Vec<GrantRecord>, usize) {
        let mut unrecorded: Vec<_> = self.held.iter_mut().filter(|(_, held)| !held.is_recorded).collect();
        let count = unrecorded.len();
        unrecorded.retain(|(_, held)| at.saturating_duration_since(held.since) >= MINIMUM_RECORDED_AGE);
        unrecorded.sort_by_key(|(_, held)| held.since);
        let mut records = Vec::new();
        for (name, held) in unrecorded.into_iter().take(MAXIMUM_BATCH) {
            let Some(pid) = pid(held.session) else { continue };
            held.is_recorded = true;
            let (ticket, token, label) = (held.ticket, held.token, held.label.clone());
            let age = at.saturating_duration_since(held.since);
            records.push(GrantRecord { name: name.clone(), pid, ticket, token, age, label });
        }
        records.sort_by(|one, other| one.name.cmp(&other.name));
        self.records.begin_write(records.iter().map(|record| record.ticket));
        (records, count)
    }

    /// Completes a write of records, or its failure. Records of holds that have ended meanwhile are
    /// to be removed.
    pub(super) fn records_written(&mut self, records: Vec<GrantRecord>, are_written: bool) {
        for GrantRecord { name, ticket, .. } in records {
            let held = self.held.get_mut(&name).filter(|held| held.ticket == ticket);
            let is_held = held.map(|held| held.is_recorded = are_written).is_some();
            self.records.end_write(name, ticket, is_held);
        }
    }
}
