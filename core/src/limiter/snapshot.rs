//! The answers of a bucket to the takes of one moment.

use super::level::Level;
use super::{ExactQuota, MAX, Verdict};
use crate::{Error, Result};

/// The content of a [`Bucket`](super::Bucket) at one moment, returned by a store that has decided
/// many takes then.
///
/// The store says how the bucket stood before the first of them; the verdict of each follows from
/// that, exactly as if they had been called one after the other at that moment ([L5]).
///
/// [L5]: crate::contract#l5
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    quota: ExactQuota,
    level: Level,
    behind: u64,
}

impl Snapshot {
    /// `tokens` whole ones, negative as a debt, and `fraction` in units of `1 / period` token.
    /// `behind` is by how many µs the clock has gone back behind the latest time seen, else 0.
    ///
    /// # Errors
    /// `InvalidArgument` for a content that no bucket of that quota can hold.
    pub fn new(quota: ExactQuota, tokens: i64, fraction: u64, behind: u64) -> Result<Self> {
        match Level::stored(&quota, tokens, fraction) {
            Some(level) if behind <= MAX => Ok(Self { quota, level, behind }),
            _ => Err(Error::invalid_argument("no bucket of that quota holds that much")),
        }
    }

    #[inline]
    pub(super) fn of(quota: ExactQuota, level: Level, behind: u64) -> Self {
        Self { quota, level, behind }
    }

    /// As [`Bucket::take`](super::Bucket::take) at that moment; a cost over the burst is not
    /// allowed.
    #[inline]
    pub fn take(&mut self, cost: u64) -> Verdict {
        let allowed = self.level.covers(cost);
        if allowed && let Some(level) = self.level.debit(cost) {
            self.level = level;
        }
        self.verdict(cost, allowed)
    }

    /// Returns the whole tokens that can be taken at once after `elapsed` µs, if nobody takes
    /// meanwhile.
    #[must_use]
    pub fn remaining_after(&self, elapsed: u64) -> u64 {
        self.level.after(&self.quota, elapsed.min(MAX), self.quota.burst()).available()
    }

    #[inline]
    pub(super) fn verdict(&self, cost: u64, allowed: bool) -> Verdict {
        let wait_for = |target| counted(self.behind, self.level.wait_for(&self.quota, target));
        Verdict {
            allowed,
            limit: self.quota.burst(),
            remaining: self.level.available(),
            retry_after: (!allowed).then(|| wait_for(cost)),
            reset_after: wait_for(self.quota.burst()),
        }
    }
}

/// A wait after the latest time seen as a wait on a clock that is `behind` it.
#[inline]
pub(super) fn counted(behind: u64, wait: u64) -> u64 {
    if wait == 0 { 0 } else { (behind + wait).min(MAX) }
}
