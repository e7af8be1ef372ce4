//! The state of one lock session: its queued work and when it last answered.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::Name;
use stanchion_core::clock::Instant;
use stanchion_core::connect::MAX_UNCHECKED_IDLE;
use tokio::sync::Notify;

use super::messages::{Batch, ForceUnlockAnswers, ReplySender, Unlock};

/// Maximum number of names in one statement, so that other requests of the session do not wait for
/// long.
const MAXIMUM_BATCH: usize = 128;

/// A session, from the decision to open it until its end.
#[derive(Debug)]
pub(super) struct SessionState {
    pub(super) pid: Option<i32>,
    pub(super) wake: Arc<Notify>,
    pub(super) unlocks: Vec<Unlock>,
    /// Tries to send, by the numbers of their attempts.
    pub(super) try_locks: Vec<(Name, u64)>,
    /// Callers that wait for a sign that the session is alive. The reply is the time at which the
    /// answered statement was sent.
    pub(super) probes: Vec<ReplySender<Instant>>,
    /// Answers to requests of other processes, sent once the unlocks are carried out.
    pub(super) answers: ForceUnlockAnswers,
    /// When the last answered statement was sent.
    pub(super) last_alive: Option<Instant>,
    /// When the last statement was sent that reads the requests of other processes.
    pub(super) last_probe: Option<Instant>,
    /// A statement was not answered in time.
    pub(super) is_overdue: bool,
    /// A statement that tries no lock is not answered yet after a quarter of that time.
    pub(super) is_late: bool,
    /// Whether it was asked if its connection lives, since the last try.
    pub(super) is_asked: bool,
    /// Since when it has been idle.
    pub(super) idle_since: Instant,
    /// The session is to close at once, whatever it does.
    pub(super) closing: bool,
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
            last_alive: None,
            last_probe: None,
            is_overdue: false,
            is_late: false,
            is_asked: false,
            idle_since: now,
            closing: false,
        }
    }

    /// Returns whether a try is next, and nothing was heard of the server for so long that it may
    /// be cut off in silence: a try without an answer would be in doubt.
    pub(super) fn is_to_be_asked(&self, at: Instant) -> bool {
        let is_unheard =
            self.last_alive.is_some_and(|alive| at.saturating_duration_since(alive) >= MAX_UNCHECKED_IDLE);
        is_unheard && !self.is_asked && self.unlocks.is_empty() && !self.try_locks.is_empty()
    }

    /// Returns whether it is open and answers, so that it can serve tries.
    pub(super) fn is_usable(&self) -> bool {
        self.pid.is_some() && !self.is_late && !self.is_overdue && !self.closing
    }

    /// Takes the next batch, and the attempts to add to it, of those for which somebody `waits`.
    /// Unlocks come first, so that no try finds a lock that is about to be unlocked.
    pub(super) fn next_batch(&mut self, waits: impl Fn(&Name, u64) -> bool) -> (Batch, Vec<(Name, u64)>) {
        let unlocks = self.unlocks.drain(..self.unlocks.len().min(MAXIMUM_BATCH)).collect();
        let mut try_locks = Vec::new();
        while self.unlocks.is_empty() && try_locks.is_empty() && !self.try_locks.is_empty() {
            let next = self.try_locks.drain(..self.try_locks.len().min(MAXIMUM_BATCH));
            try_locks.extend(next.filter(|(name, number)| waits(name, *number)));
        }
        self.is_asked &= try_locks.is_empty();
        let answers = if self.unlocks.is_empty() {
            std::mem::take(&mut self.answers)
        } else {
            ForceUnlockAnswers::default()
        };
        let checks_requests = !answers.is_empty();
        let probes = std::mem::take(&mut self.probes);
        (Batch { unlocks, probes, answers, checks_requests, ..Batch::default() }, try_locks)
    }

    /// Returns when the session is to be probed again, at the given interval.
    pub(super) fn next_probe(&self, interval: Duration) -> Option<Instant> {
        self.last_probe.map(|last| last + interval)
    }
}
