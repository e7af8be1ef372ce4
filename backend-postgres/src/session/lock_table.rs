//! Keeps the server's lock table from filling up: while it is full, new sessions cannot log in.

use std::time::Duration;

use stanchion_core::clock::Instant;
use stanchion_core::{Error, ErrorKind};

/// Interval between two checks of the lock table while locks are taken, and how long one that was
/// full counts as full.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of grants between two checks.
const MAXIMUM_UNCHECKED_GRANTS: usize = 256;
/// Between two checks, a process takes at most one in this many of the free locks.
const FREE_LOCKS_DIVISOR: i64 = 64;

/// The fill level of the server's lock table, as last seen by this process.
#[derive(Debug, Default)]
pub(super) struct LockTable {
    checked_at: Option<Instant>,
    granted: usize,
    /// How many locks may be granted until the next check.
    allowed: usize,
    is_full: bool,
}

impl LockTable {
    /// Counts a granted lock.
    pub(super) fn count_grant(&mut self) {
        self.granted += 1;
    }

    /// Returns whether a statement that tries `try_locks` locks has to check the lock table first.
    pub(super) fn is_check_due(&self, try_locks: usize, at: Instant) -> bool {
        let is_old = self.checked_at.is_none_or(|checked_at| at >= checked_at + CHECK_INTERVAL);
        is_old || self.granted + try_locks > self.allowed
    }

    /// Applies the result of a check.
    pub(super) fn update(&mut self, (locks, room): (i64, i64), at: Instant) {
        self.checked_at = Some(at);
        self.granted = 0;
        self.allowed =
            usize::try_from((room - locks) / FREE_LOCKS_DIVISOR).unwrap_or(0).min(MAXIMUM_UNCHECKED_GRANTS);
        self.is_full = locks + 1 > room;
    }

    /// Returns why a new lock is refused without asking the server, while the last check is recent
    /// and found no room.
    pub(super) fn refusal(&self, at: Instant) -> Option<Error> {
        let is_recent = self.checked_at.is_some_and(|checked_at| at < checked_at + CHECK_INTERVAL);
        (self.is_full && is_recent).then(full_error)
    }
}

/// Returns the error for a lock table without room.
pub(super) fn full_error() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the server's table of locks is half full (max_locks_per_transaction): no further mutex is locked in session mode",
    )
}
