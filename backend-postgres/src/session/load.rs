//! Keeps the server's table of locks from filling up: when it is full nobody can log in any more.

use std::time::Duration;

use stanchion_core::clock::Instant;
use stanchion_core::{Error, ErrorKind};

/// Between two looks while locks are taken, and how long the server is believed to be full.
const LOOK: Duration = Duration::from_secs(1);
/// So many grants after the last look comes the next, at most, and less where there is little room: each process takes one
/// in so many of the locks that are left.
const MANY: usize = 256;
const SHARE: i64 = 64;

/// What is known of the server's table of locks.
#[derive(Debug, Default)]
pub(super) struct Load {
    looked: Option<Instant>,
    granted: usize,
    /// How many may be granted until the next look.
    allowed: usize,
    full: bool,
}

impl Load {
    /// A lock was granted.
    pub(super) fn grow(&mut self) {
        self.granted += 1;
    }

    /// Whether the next statement that tries `tries` locks looks first.
    pub(super) fn is_due(&self, tries: usize, at: Instant) -> bool {
        let stale = self.looked.is_none_or(|looked| at >= looked + LOOK);
        stale || self.granted + tries > self.allowed
    }

    /// What a look saw.
    pub(super) fn saw(&mut self, (locks, room): (i64, i64), at: Instant) {
        self.looked = Some(at);
        self.granted = 0;
        self.allowed = usize::try_from((room - locks) / SHARE).unwrap_or(0).min(MANY);
        self.full = locks + 1 > room;
    }

    /// Refuses a new lock without asking while the last look says that there is no room.
    pub(super) fn refusal(&self, at: Instant) -> Option<Error> {
        let fresh = self.looked.is_some_and(|looked| at < looked + LOOK);
        (self.full && fresh).then(full)
    }
}

/// There is no room.
pub(super) fn full() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the server's table of locks is half full (max_locks_per_transaction): no further mutex is locked in session mode",
    )
}
