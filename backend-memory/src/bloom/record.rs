//! The state of one filter.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use stanchion_core::Listed;
use stanchion_core::bloom::FilterTerms;
use stanchion_core::clock::micros;

use super::bits::Bits;
use crate::clock::Moment;
use crate::names::Resident;

/// Retention of the record of a cleared filter.
const CLEARED_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// Number of stripes. Inserts of the same item exclude each other; inserts of different items
/// seldom do.
const STRIPES: usize = 64;

/// A filter; without a record until its first insert, and after the store lost its data.
pub(crate) struct FilterEntry {
    record: RwLock<Option<Record>>,
    stripes: [Mutex<()>; STRIPES],
}

/// A record, from its first insert to its end; a cleared record has no contents.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) lifetime: Lifetime,
    pub(super) contents: Option<Contents>,
}

/// The identity of a record, and its end in µs of the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lifetime {
    pub(super) generation: u64,
    pub(super) ends: Option<u64>,
}

/// The items inserted since a record was created or cleared.
#[derive(Debug)]
pub(super) struct Contents {
    /// Identifies the contents in this process; from 1.
    pub(super) number: u64,
    pub(super) terms: FilterTerms,
    pub(super) bits: Bits,
}

impl Lifetime {
    pub(super) fn is_over(&self, at: Moment) -> bool {
        self.ends.is_some_and(|ends| ends <= at.micros)
    }
}

impl Contents {
    pub(super) fn new(terms: FilterTerms) -> Self {
        Self { number: next(), terms, bits: Bits::new(&terms.shape) }
    }
}

impl Record {
    pub(super) fn new() -> Self {
        Self { lifetime: Lifetime { generation: next(), ends: None }, contents: None }
    }

    /// Returns the contents, and creates them with these terms if there are none.
    pub(super) fn contents_or(&mut self, terms: FilterTerms, at: Moment) -> &Contents {
        let lifetime = &mut self.lifetime;
        self.contents.get_or_insert_with(|| {
            lifetime.ends = terms.ttl.map(|ttl| at.micros.saturating_add(micros(ttl)));
            Contents::new(terms)
        })
    }

    pub(super) fn clear(&mut self, at: Moment) {
        self.contents = None;
        self.lifetime.ends = Some(at.micros.saturating_add(micros(CLEARED_RETENTION)));
    }
}

impl FilterEntry {
    pub(crate) fn new() -> Self {
        Self { record: RwLock::new(None), stripes: std::array::from_fn(|_| Mutex::new(())) }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Option<Record>> {
        self.record.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Option<Record>> {
        self.record.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks out other inserts of items with this first position.
    pub(super) fn stripe(&self, position: u64) -> MutexGuard<'_, ()> {
        let stripe = usize::try_from(position % STRIPES as u64).unwrap_or(0);
        self.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills in the figures of this name; returns whether it has a filter.
    pub(crate) fn list(&self, at: Moment, listed: &mut Listed) -> bool {
        let record = self.read();
        let living = record.as_ref().filter(|record| !record.lifetime.is_over(at));
        let Some(contents) = living.and_then(|record| record.contents.as_ref()) else { return false };
        listed.limit = Some(contents.terms.shape.capacity());
        true
    }

    /// Forgets everything.
    pub(crate) fn forget(&self) {
        *self.write() = None;
    }
}

impl Resident for FilterEntry {
    fn token_floor(&self) -> u64 {
        0
    }

    /// Returns at most the retention of a cleared record, because a clear may come at any moment;
    /// the caller asks again at that time.
    fn retained_until(&self, at: Moment) -> Option<u64> {
        let record = self.read();
        let lifetime = record.as_ref()?.lifetime;
        let again = at.micros.saturating_add(micros(CLEARED_RETENTION));
        (!lifetime.is_over(at)).then(|| lifetime.ends.map_or(again, |ends| ends.min(again)))
    }
}

fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
