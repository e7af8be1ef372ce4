//! The bucket of one name behind its lock.

use std::sync::PoisonError;
use std::time::Duration;

use stanchion_core::limiter::{Bucket, ExactQuota};
use stanchion_core::{Listed, Result, Ticket};

use crate::clock::Moment;
use crate::names::Resident;
use crate::sync::{Mutex, MutexGuard};

/// The state of a limiter; without a bucket until its first charge, and after the store lost its data.
pub(crate) struct LimiterEntry {
    bucket: Mutex<Option<Bucket>>,
    /// How long the quota is kept once the bucket is full, in µs.
    retention: u64,
}

impl LimiterEntry {
    pub(crate) fn new(retention: u64) -> Self {
        Self { bucket: Mutex::default(), retention }
    }

    fn bucket(&self) -> MutexGuard<'_, Option<Bucket>> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the bucket. A name without a bucket gets a full one with this quota, unless the change is refused (C20).
    #[inline]
    pub(crate) fn change<R>(
        &self,
        quota: ExactQuota,
        now: u64,
        change: impl FnOnce(&mut Bucket) -> Result<R>,
    ) -> Result<R> {
        let mut bucket = self.bucket();
        if let Some(bucket) = bucket.as_mut() {
            return change(bucket);
        }
        let mut full = Bucket::new(quota, now);
        let changed = change(&mut full)?;
        *bucket = Some(full);
        Ok(changed)
    }

    /// Looks at the bucket; at a full one with this quota if there is none. Stores nothing.
    pub(crate) fn look<R>(&self, quota: ExactQuota, now: u64, look: impl FnOnce(&Bucket) -> R) -> R {
        match &*self.bucket() {
            Some(bucket) => look(bucket),
            None => look(&Bucket::new(quota, now)),
        }
    }

    /// Changes the bucket, if there is one.
    pub(crate) fn change_stored(&self, change: impl FnOnce(&mut Bucket)) {
        if let Some(bucket) = self.bucket().as_mut() {
            change(bucket);
        }
    }

    /// Cancels a reservation, if the bucket knows it (L7).
    pub(crate) fn cancel(&self, now: u64, ticket: Ticket) -> u64 {
        self.bucket().as_mut().map_or(0, |bucket| bucket.cancel(now, ticket.as_u128()))
    }

    /// Tells the figures of this name; returns whether it has a bucket that is kept.
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
    fn kept_until(&self, at: Moment) -> Option<u64> {
        let full_at = self.bucket().as_ref()?.full_at();
        Some(full_at.saturating_add(self.retention)).filter(|until| *until > at.micros)
    }
}
