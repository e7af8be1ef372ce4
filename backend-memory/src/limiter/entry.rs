//! The bucket of one name behind its lock.

use std::sync::PoisonError;

use stanchion_core::Ticket;
use stanchion_core::limiter::{Bucket, ExactQuota};

use crate::clock::Moment;
use crate::names::Resident;
use crate::sync::Mutex;

/// The state of a limiter; without a bucket until its first operation, and after the store lost its data.
#[derive(Debug, Default)]
pub(crate) struct LimiterEntry {
    bucket: Mutex<Option<Bucket>>,
}

impl LimiterEntry {
    /// Changes the bucket; a name without a bucket gets a full one with this quota.
    #[inline]
    pub(crate) fn change<R>(&self, quota: ExactQuota, now: u64, change: impl FnOnce(&mut Bucket) -> R) -> R {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        change(bucket.get_or_insert_with(|| Bucket::new(quota, now)))
    }

    /// Cancels a reservation, if the bucket knows it (L7).
    pub(crate) fn cancel(&self, now: u64, ticket: Ticket) -> u64 {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.as_mut().map_or(0, |bucket| bucket.cancel(now, ticket.as_u128()))
    }

    /// Forgets everything.
    pub(crate) fn forget(&self) {
        *self.bucket.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Resident for LimiterEntry {
    fn token_floor(&self) -> u64 {
        0
    }

    /// Returns when the bucket is full: from then on a new bucket gives the same answers.
    fn kept_until(&self, at: Moment) -> Option<u64> {
        let bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = bucket.as_ref().filter(|bucket| !bucket.is_full(at.micros))?;
        Some(bucket.full_at())
    }
}
