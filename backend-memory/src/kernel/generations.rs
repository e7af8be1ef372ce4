//! The generations of a wait group, each from the first member to zero.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use stanchion_core::Outcome;
use stanchion_core::clock::Instant;

use crate::sync::Broadcast;

/// How a member ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Its holder released it.
    Finished,
    /// Its guard was dropped, its store object was closed, or it was ended by force.
    Abandoned,
    /// Its lease ended.
    Expired,
    /// Its acquisition was dropped before it returned a guard.
    Cancelled,
}

/// How a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The count came to zero.
    Zero(Outcome),
    /// The record was lost while it had members.
    StateLost,
}

/// One generation, as the waiters for its end see it.
#[derive(Debug, Default)]
pub(crate) struct Generation {
    pub(crate) end: OnceLock<End>,
    /// Notified at the end, and when waiters have to wait for an earlier expiry.
    pub(crate) changed: Broadcast,
}

/// The record of a wait group, beside its members.
#[derive(Debug)]
pub(crate) struct Generations {
    retention: Duration,
    /// Counts of the open generation.
    tally: Outcome,
    /// Whether a generation is open: a member was added since the count was zero last.
    is_open: bool,
    /// Outcome of the last generation that came to zero, and the time.
    last: Option<(Outcome, Instant)>,
    /// The open generation, once a caller waits for it.
    watched: Option<Arc<Generation>>,
    /// The number of the record; 0 if there is none, which is not zero members (W6).
    record: u64,
    /// The number of the last record.
    last_record: u64,
}

impl Generations {
    pub(crate) fn new(retention: Duration) -> Self {
        Self {
            retention,
            tally: Outcome::default(),
            is_open: false,
            last: None,
            watched: None,
            record: 0,
            last_record: 0,
        }
    }

    /// Returns the number of the record, from 1; 0 if there is none: the group was not used since
    /// its record was last lost.
    pub(crate) fn record(&self) -> u64 {
        self.record
    }

    /// Returns the outcome of the last generation that came to zero; zeros if there was none.
    pub(crate) fn last(&self) -> Outcome {
        self.last.map(|(outcome, _)| outcome).unwrap_or_default()
    }

    /// Records that members were added.
    pub(crate) fn opened(&mut self) {
        self.is_open = true;
        if self.record == 0 {
            self.last_record += 1;
            self.record = self.last_record;
        }
    }

    /// Returns whether a generation is open: a member was added since the count was last zero.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the open generation, for a caller that waits for it.
    pub(crate) fn watch(&mut self) -> Arc<Generation> {
        Arc::clone(self.watched.get_or_insert_default())
    }

    /// Returns the open generation, if a caller waits for it.
    pub(crate) fn watched(&self) -> Option<Arc<Generation>> {
        self.watched.clone()
    }

    /// Counts ended members.
    pub(crate) fn count(&mut self, cause: Cause, members: u32) {
        let members = u64::from(members);
        match cause {
            Cause::Finished => self.tally.finished += members,
            Cause::Abandoned => self.tally.abandoned += members,
            Cause::Expired => self.tally.expired += members,
            Cause::Cancelled => {}
        }
    }

    /// Ends the generation because the count is zero. Returns it if a caller waits for it.
    ///
    /// A generation that consists only of cancelled calls never had a member; the previous outcome
    /// stays.
    pub(crate) fn close(&mut self, now: Instant) -> Option<Arc<Generation>> {
        self.is_open = false;
        let tally = std::mem::take(&mut self.tally);
        let outcome = if tally == Outcome::default() { self.last() } else { tally };
        self.last = Some((outcome, now));
        self.end(End::Zero(outcome))
    }

    /// Forgets everything, as a store that lost its data does.
    pub(crate) fn forget(&mut self) -> Option<Arc<Generation>> {
        let generation = self.end(End::StateLost);
        *self = Self { last_record: self.last_record, ..Self::new(self.retention) };
        generation
    }

    /// Returns when the count came to zero last.
    pub(crate) fn zero_since(&self) -> Option<Instant> {
        self.last.map(|(_, zero)| zero)
    }

    /// Returns until when the record stays without a handle (C25).
    pub(crate) fn retained_until(&self) -> Option<Instant> {
        self.last.and_then(|(_, zero)| zero.checked_add(self.retention))
    }

    fn end(&mut self, end: End) -> Option<Arc<Generation>> {
        let generation = self.watched.take()?;
        // Set only here: the generation was taken out of `watched` under the lock.
        let _ = generation.end.set(end);
        Some(generation)
    }
}
