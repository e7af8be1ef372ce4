//! The bucket of one name behind its lock.

use std::sync::PoisonError;
use std::time::Duration;

use stanchion_core::limiter::{Bucket, ExactQuota};
use stanchion_core::{Listed, Result};

use super::LimiterClock;
use crate::clock::Moment;
use crate::names::Resident;
use crate::sync::{Mutex, MutexGuard};

/// The state of a limiter. The clock is read under its lock (C7): a decision that waited for it
/// must not be of an earlier time than the one before. There is no bucket until the first charge,
/// and after the store lost its data.
pub(crate) struct LimiterEntry {
    bucket: Mutex<Option<Bucket>>,
    /// Retention of the quota once the bucket is full, in µs.
    retention: u64,
}

impl LimiterEntry {
    pub(crate) fn new(retention: u64) -> Self {
        Self { bucket: Mutex::default(), retention }
    }

    fn bucket(&self) -> MutexGuard<'_, Option<Bucket>> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the bucket. A name without a bucket gets a full one with this quota, unless the
    /// change is refused (C20).
    #[inline]
    pub(crate) fn change<R>(
        &self,
        quota: ExactQuota,
        clock: &LimiterClock,
        change: impl FnOnce(&mut Bucket, Moment) -> Result<R>,
    ) -> Result<R> {
        let mut bucket = self.bucket();
        let at = clock.read();
        if let Some(bucket) = bucket.as_mut() {
            return change(bucket, at);
        }
        let mut full = Bucket::new(quota, at.micros);
        let changed = change(&mut full, at)?;
        *bucket = Some(full);
        Ok(changed)
    }

    /// Looks at the bucket; at a full one with this quota if there is none. Stores nothing.
    pub(crate) fn look<R>(
        &self,
        quota: ExactQuota,
        clock: &LimiterClock,
        look: impl FnOnce(&Bucket, Moment) -> R,
    ) -> R {
        let bucket = self.bucket();
        let at = clock.read();
        match &*bucket {
            Some(bucket) => look(bucket, at),
            None => look(&Bucket::new(quota, at.micros), at),
        }
    }

    /// Changes the bucket, if there is one.
    pub(crate) fn change_stored<R>(
        &self,
        clock: &LimiterClock,
        change: impl FnOnce(&mut Bucket, Moment) -> R,
    ) -> Option<R> {
        self.bucket().as_mut().map(|bucket| change(bucket, clock.read()))
    }

    /// Fills in the figures of this name; returns whether it has a bucket whose retention is not
    /// over.
    pub(crate) fn list(&self, at: Moment, listed: &mut Listed) -> bool {
        let guard = self.bucket();
        let Some(bucket) = guard.as_ref() else { return false };
        let verdict = bucket.peek(at.micros);
        (listed.limit, listed.tokens) = (Some(verdict.limit), Some(verdict.remaining));
        listed.last_used = Some(Duration::from_micros(at.micros.saturating_sub(bucket.last_used())));
        bucket.full_at().saturating_add(self.retention) > at.micros
    }

    /// Forgets everything.
    pub(crate) fn forget(&self) {
        *self.bucket() = None;
    }
}

impl Resident for LimiterEntry {
    fn token_floor(&self) -> u64 {
        0
    }

    /// Returns the end of the retention, which begins when the bucket is full.
    fn retained_until(&self, at: Moment) -> Option<u64> {
        let full_at = self.bucket().as_ref()?.full_at();
        Some(full_at.saturating_add(self.retention)).filter(|until| *until > at.micros)
    }
}
