//! A lock session, as the state sees it: what it is to do and what was heard of it.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::Instant;
use stanchion_core::{Name, Ticket};
use tokio::sync::Notify;

use super::entry::Caller;

/// Names a session of this process.
pub(super) type PostId = u64;

/// Names of one statement at most, so that others on the session are not kept waiting for long.
const BATCH: usize = 128;

/// An unlock.
#[derive(Debug)]
pub(super) struct Unlock {
    pub(super) name: Name,
    /// Whose hold it ends.
    pub(super) ticket: Option<Ticket>,
    /// That hold is written for others to see.
    pub(super) is_noted: bool,
}

/// Another process wants a mutex that the session holds.
#[derive(Debug)]
pub(super) struct Eviction {
    /// Names the request.
    pub(super) id: i64,
    pub(super) name: String,
    /// Later grants are not meant.
    pub(super) token: i64,
}

/// What others are told of their requests, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Answered {
    /// The session does not hold what they wanted.
    pub(super) obeyed: Vec<i64>,
    /// It was granted after they asked: who wants that one has to ask again.
    pub(super) declined: Vec<i64>,
}

impl Answered {
    pub(super) fn is_empty(&self) -> bool {
        self.obeyed.is_empty() && self.declined.is_empty()
    }
}

/// A session. It exists here from the wish to have it to its end.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) pid: Option<i32>,
    pub(super) wake: Arc<Notify>,
    pub(super) unlocks: Vec<Unlock>,
    /// Tries, by the numbers of their attempts.
    pub(super) tries: Vec<(Name, u64)>,
    /// Callers that need to know that it is alive; they are told when the statement was sent that showed it.
    pub(super) probes: Vec<Caller<Instant>>,
    /// Requests to give a mutex up that are answered, once the unlocks are carried out.
    pub(super) answered: Answered,
    /// Locks that it has and is not yet told to give up.
    pub(super) holds: usize,
    /// When the last statement was sent that was answered.
    pub(super) heard: Option<Instant>,
    /// When it was last asked what others want it to give up.
    pub(super) probed: Option<Instant>,
    /// A statement of it is not answered in time.
    pub(super) overdue: bool,
    /// Since when it has had nothing to do.
    pub(super) idle: Instant,
    /// It is to end at once, whatever it does.
    pub(super) closing: bool,
}

/// A try of one statement.
#[derive(Debug)]
pub(super) struct Try {
    pub(super) name: Name,
    /// Names the attempt.
    pub(super) number: u64,
    /// A ticket that wants it; one that has a place in the queue, if there is one.
    pub(super) ticket: Ticket,
    /// Whether the statement sees whose turn it is.
    pub(super) reads_queue: bool,
}

/// What one statement carries.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) unlocks: Vec<Unlock>,
    pub(super) tries: Vec<Try>,
    pub(super) probes: Vec<Caller<Instant>>,
    /// Requests of others that are answered.
    pub(super) answered: Answered,
    /// Ask what others want it to give up.
    pub(super) asks: bool,
    /// See how full the server's table of locks is.
    pub(super) looks: bool,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.unlocks.is_empty() && self.tries.is_empty() && self.probes.is_empty() && !self.asks
    }

    /// What is unlocked, and what is tried.
    pub(super) fn names(&self) -> Vec<Name> {
        let unlocks = self.unlocks.iter().map(|unlock| &unlock.name);
        unlocks.chain(self.tries.iter().map(|attempt| &attempt.name)).cloned().collect()
    }
}

impl Post {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            pid: None,
            wake: Arc::default(),
            unlocks: Vec::new(),
            tries: Vec::new(),
            probes: Vec::new(),
            answered: Answered::default(),
            holds: 0,
            heard: None,
            probed: None,
            overdue: false,
            idle: now,
            closing: false,
        }
    }

    /// What is to be sent next, and the attempts to be made; the unlocks come first, so that no try finds a lock that is being
    /// given up.
    pub(super) fn take(&mut self) -> (Batch, Vec<(Name, u64)>) {
        let unlocks = self.unlocks.drain(..self.unlocks.len().min(BATCH)).collect();
        let room = if self.unlocks.is_empty() { self.tries.len().min(BATCH) } else { 0 };
        let tries = self.tries.drain(..room).collect();
        let answered =
            if self.unlocks.is_empty() { std::mem::take(&mut self.answered) } else { Answered::default() };
        let asks = !answered.is_empty();
        let probes = std::mem::take(&mut self.probes);
        (Batch { unlocks, tries: Vec::new(), probes, answered, asks, looks: false }, tries)
    }

    /// When it is to be probed again, if it is probed that often.
    pub(super) fn due(&self, every: Duration) -> Option<Instant> {
        self.probed.map(|probed| probed + every)
    }
}
