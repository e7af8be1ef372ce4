//! Tables that somebody has locked, as a change of a table does: requests about their names wait
//! for them one at a time, so that requests about other names find a connection (C27).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stanchion_core::clock::{Instant, now, timeout_at};
use stanchion_core::{Error, ErrorKind, Kind, Result};
use tokio::sync::{Semaphore, SemaphorePermit};

/// For so long a table counts as locked that was seen to be.
const LASTING: Duration = Duration::from_secs(1);

/// The tables of the kinds that share some.
#[derive(Debug)]
struct Tables {
    seen_locked: Mutex<Option<Instant>>,
    turn: Semaphore,
}

impl Default for Tables {
    fn default() -> Self {
        Self { seen_locked: Mutex::default(), turn: Semaphore::new(1) }
    }
}

impl Tables {
    fn are_locked(&self) -> bool {
        let seen = self.seen_locked.lock().unwrap_or_else(PoisonError::into_inner);
        seen.is_some_and(|seen| now() < seen + LASTING)
    }
}

/// What one pool has seen of the tables of each kind.
#[derive(Debug, Default)]
pub(super) struct LockedTables {
    permits: Tables,
    limits: Tables,
    filters: Tables,
}

impl LockedTables {
    fn of(&self, kind: Kind) -> &Tables {
        match kind {
            Kind::Limiter => &self.limits,
            Kind::BloomFilter => &self.filters,
            _ => &self.permits,
        }
    }

    /// Notes that a table of that kind is locked at this moment.
    pub(super) fn saw(&self, kind: Kind) {
        let mut seen = self.of(kind).seen_locked.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = Some(now());
    }

    /// Waits for the turn of a request about names of that kind, until `end`; `None` if it need not
    /// wait for any.
    ///
    /// # Errors
    /// `Unavailable` if its turn does not come. Nothing was sent.
    pub(super) async fn turn(&self, kind: Kind, end: Instant) -> Result<Option<SemaphorePermit<'_>>> {
        let tables = self.of(kind);
        if !tables.are_locked() {
            return Ok(None);
        }
        let turn = timeout_at(end, tables.turn.acquire()).await;
        let locked = |_| {
            Error::new(ErrorKind::Unavailable, "somebody else has a table locked").of_a_store_that_answers()
        };
        turn.map_err(locked).map(std::result::Result::ok)
    }
}
