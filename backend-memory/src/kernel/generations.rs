//! The generations of a wait group: from the first member to zero.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use stanchion_core::Outcome;
use stanchion_core::clock::Instant;

use crate::sync::Notify;

/// How a member ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Its holder released it.
    Finished,
    /// Its guard was dropped, its store object closed, or it was freed by force.
    Abandoned,
    /// Its lease ended.
    Expired,
    /// Its acquisition was dropped before it had a guard.
    Cancelled,
}

/// How a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The count came to zero.
    Zero(Outcome),
    /// The record was lost with members in it.
    StateLost,
}

/// One generation, as those see it who wait for its end.
#[derive(Debug, Default)]
pub(crate) struct Generation {
    pub(crate) end: OnceLock<End>,
    /// Told at the end, and when an earlier expiry is to be waited for.
    pub(crate) changed: Notify,
}

/// The record of a wait group, beside its members.
#[derive(Debug)]
pub(crate) struct Generations {
    retention: Duration,
    /// Of the open generation.
    tally: Outcome,
    /// Whether a generation is open: a member was added since the count was zero last.
    is_open: bool,
    /// Of the one that came to zero last, and when.
    last: Option<(Outcome, Instant)>,
    /// Made by the first who waits for the open generation.
    watched: Option<Arc<Generation>>,
    /// Whether there is a record: an absent one is not zero (W6).
    exists: bool,
}

impl Generations {
    pub(crate) fn new(retention: Duration) -> Self {
        Self {
            retention,
            tally: Outcome::default(),
            is_open: false,
            last: None,
            watched: None,
            exists: false,
        }
    }

    /// Whether the group was ever used, since its record was lost.
    pub(crate) fn exists(&self) -> bool {
        self.exists
    }

    /// The sums of the generation that came to zero last; zeros if there was none.
    pub(crate) fn last(&self) -> Outcome {
        self.last.map(|(outcome, _)| outcome).unwrap_or_default()
    }

    /// Notes that members were added.
    pub(crate) fn opened(&mut self) {
        (self.is_open, self.exists) = (true, true);
    }

    /// Whether a member was added since the count was zero last.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// The open generation, to wait for.
    pub(crate) fn watch(&mut self) -> Arc<Generation> {
        Arc::clone(self.watched.get_or_insert_default())
    }

    /// The open generation, if anybody waits for it.
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

    /// Ends the generation: the count is zero. Gives it if anybody waits for it.
    ///
    /// A generation of cancelled calls only never had a member; the outcome before it stands.
    pub(crate) fn close(&mut self, now: Instant) -> Option<Arc<Generation>> {
        self.is_open = false;
        let tally = std::mem::take(&mut self.tally);
        let outcome = if tally == Outcome::default() { self.last() } else { tally };
        self.last = Some((outcome, now));
        self.end(End::Zero(outcome))
    }

    /// Forgets everything, as a store that lost its data.
    pub(crate) fn forget(&mut self) -> Option<Arc<Generation>> {
        let generation = self.end(End::StateLost);
        *self = Self::new(self.retention);
        generation
    }

    /// Until when the record is kept although nobody uses it (C25).
    pub(crate) fn kept_until(&self) -> Option<Instant> {
        self.last.and_then(|(_, zero)| zero.checked_add(self.retention))
    }

    fn end(&mut self, end: End) -> Option<Arc<Generation>> {
        let generation = self.watched.take()?;
        // Nobody else sets it: it left `watched` under the lock.
        let _ = generation.end.set(end);
        Some(generation)
    }
}
