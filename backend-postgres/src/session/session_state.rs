//! The state of one lock session: its queued work and when it last answered.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::Instant;
use stanchion_core::{Name, Ticket};
use tokio::sync::Notify;

use super::mutex_state::ReplySender;

/// Identifies a session of this process.
pub(super) type SessionId = u64;

/// Maximum number of names in one statement, so that other requests of the session do not wait for long.
const MAXIMUM_BATCH: usize = 128;

/// An unlock of one name.
#[derive(Debug)]
pub(super) struct Unlock {
    pub(super) name: Name,
    /// The ticket whose hold it ends; `None` if the lock was never a hold of this process.
    pub(super) ticket: Option<Ticket>,
    /// The hold has a record, or may have one.
    pub(super) is_recorded: bool,
}

/// The request of another process to unlock a mutex by force.
#[derive(Debug)]
pub(super) struct ForceUnlockRequest {
    /// The id of the request.
    pub(super) id: i64,
    pub(super) name: String,
    /// The request concerns grants up to this token, and none after it.
    pub(super) token: i64,
}

/// The answers to requests of other processes, by the ids of the requests.
#[derive(Debug, Default)]
pub(super) struct ForceUnlockAnswers {
    /// The session no longer holds the requested mutex.
    pub(super) accepted: Vec<i64>,
    /// The session holds the mutex by a grant after the request: a process that wants that one unlocked has
    /// to ask again.
    pub(super) declined: Vec<i64>,
}

impl ForceUnlockAnswers {
    pub(super) fn is_empty(&self) -> bool {
        self.accepted.is_empty() && self.declined.is_empty()
    }
}

/// A session, from the decision to open it until its end.
#[derive(Debug)]
pub(super) struct SessionState {
    pub(super) pid: Option<i32>,
    pub(super) wake: Arc<Notify>,
    pub(super) unlocks: Vec<Unlock>,
    /// Tries to send, by the numbers of their attempts.
    pub(super) try_locks: Vec<(Name, u64)>,
    /// Callers that wait for a sign that the session is alive. The reply is the time at which the answered
    /// statement was sent.
    pub(super) probes: Vec<ReplySender<Instant>>,
    /// Answers to requests of other processes, sent once the unlocks are carried out.
    pub(super) answers: ForceUnlockAnswers,
    /// Number of locks that it holds and that are not being unlocked.
    pub(super) holds: usize,
    /// When the last answered statement was sent.
    pub(super) last_alive: Option<Instant>,
    /// When the last statement was sent that reads the requests of other processes.
    pub(super) last_probe: Option<Instant>,
    /// A statement was not answered in time.
    pub(super) is_overdue: bool,
    /// Since when it has been idle.
    pub(super) idle_since: Instant,
    /// The session is to close at once, whatever it does.
    pub(super) closing: bool,
}

/// One try to lock in a statement.
#[derive(Debug)]
pub(super) struct TryLock {
    pub(super) name: Name,
    /// The number of the attempt.
    pub(super) number: u64,
    /// The ticket for which the lock is tried: one that has a place in the queue, if there is one.
    pub(super) ticket: Ticket,
    /// Whether the statement reads which ticket is the first in the queue.
    pub(super) reads_queue: bool,
}

/// The content of one statement.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) unlocks: Vec<Unlock>,
    pub(super) try_locks: Vec<TryLock>,
    pub(super) probes: Vec<ReplySender<Instant>>,
    /// Answers to requests of other processes.
    pub(super) answers: ForceUnlockAnswers,
    /// Read the requests of other processes to unlock a mutex.
    pub(super) checks_requests: bool,
    /// Read how full the server's lock table is.
    pub(super) checks_lock_table: bool,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.unlocks.is_empty()
            && self.try_locks.is_empty()
            && self.probes.is_empty()
            && !self.checks_requests
    }

    /// Returns the names to unlock, then the names to try.
    pub(super) fn names(&self) -> Vec<Name> {
        let unlocks = self.unlocks.iter().map(|unlock| &unlock.name);
        unlocks.chain(self.try_locks.iter().map(|attempt| &attempt.name)).cloned().collect()
    }
}

impl SessionState {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            pid: None,
            wake: Arc::default(),
            unlocks: Vec::new(),
            try_locks: Vec::new(),
            probes: Vec::new(),
            answers: ForceUnlockAnswers::default(),
            holds: 0,
            last_alive: None,
            last_probe: None,
            is_overdue: false,
            idle_since: now,
            closing: false,
        }
    }

    /// Takes the next batch, and the attempts to add to it. Unlocks come first, so that no try finds a lock
    /// that is about to be unlocked.
    pub(super) fn next_batch(&mut self) -> (Batch, Vec<(Name, u64)>) {
        let unlocks = self.unlocks.drain(..self.unlocks.len().min(MAXIMUM_BATCH)).collect();
        let room = if self.unlocks.is_empty() { self.try_locks.len().min(MAXIMUM_BATCH) } else { 0 };
        let try_locks = self.try_locks.drain(..room).collect();
        let answers = if self.unlocks.is_empty() {
            std::mem::take(&mut self.answers)
        } else {
            ForceUnlockAnswers::default()
        };
        let checks_requests = !answers.is_empty();
        let probes = std::mem::take(&mut self.probes);
        (
            Batch {
                unlocks,
                try_locks: Vec::new(),
                probes,
                answers,
                checks_requests,
                checks_lock_table: false,
            },
            try_locks,
        )
    }

    /// Returns when the session is to be probed again, at the given interval.
    pub(super) fn next_probe(&self, interval: Duration) -> Option<Instant> {
        self.last_probe.map(|last| last + interval)
    }
}
