//! The bucket of one name.

use super::level::Level;
use super::reservations::Reservations;
use super::snapshot::{Snapshot, counted};
use super::{ExactQuota, MAX};
use crate::Result;

/// The answer of a bucket to one call ([L8]). Times in µs, counted from the `now` of the call.
///
/// [L8]: crate::contract#l8
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// Whether the cost was taken, or for a cost of 0, whether the bucket is not in debt.
    pub allowed: bool,
    /// The burst, in tokens.
    pub limit: u64,
    /// Whole tokens that can be taken at once, after this call.
    pub remaining: u64,
    /// The same call is allowed after this time, and not a microsecond before, if no other call
    /// takes tokens ([L2]). `None` when allowed.
    ///
    /// [L2]: crate::contract#l2
    pub retry_after: Option<u64>,
    /// The bucket is full after this time, if no call takes tokens.
    pub reset_after: u64,
}

/// A place in the future.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reserved {
    /// The time of the place on the clock of the calls, in µs.
    pub ready_at: u64,
    /// How long that is from the `now` of the call, in µs; 0 means at once.
    pub wait: u64,
}

/// A token bucket with reservations: the state of one limiter name.
///
/// # Guarantees
/// In every window `[a, b]` the cost of the calls admitted in it and of the reservations whose time
/// lies in it is at most `burst + rate · (b − a)`, exactly ([L1]). Below 2⁵³ µs every wait is exact
/// to the microsecond, rounded up. Under saturating demand nothing of the rate is lost, unless the
/// bucket fills within a microsecond ([L2]): a burst that the rate refills in less than a
/// millisecond can lose a part of one microsecond in each filling.
///
/// # Time
/// `now` is in µs and below 2⁵³; a larger one counts as 2⁵³ − 1. A `now` before the latest one seen
/// counts as the latest one and mints nothing ([L4]); durations in the answers still count from the
/// `now` that was given, so that they hold on a clock that went back.
///
/// If it is more than a minute before the latest one seen, the clock was wrong then, and waiting
/// for that time could take years. The bucket goes on from `now` with the content it has, and
/// forgets when its reservations are due: what they cost stays taken, they give nothing back, and
/// later ones are placed behind their cost. If the clock was right and is so again later, the time
/// in between counts twice: at most one burst for each time.
///
/// # Retries
/// [`reserve`](Self::reserve) and [`cancel`](Self::cancel) are idempotent by id while the
/// reservation is live; nothing is kept of it afterwards. A store that can see a call again later
/// remembers its answers ([L5]).
///
/// [L1]: crate::contract#l1
/// [L2]: crate::contract#l2
/// [L4]: crate::contract#l4
/// [L5]: crate::contract#l5
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    quota: ExactQuota,
    level: Level,
    last: u64,
    reservations: Reservations,
}

/// By how many µs a clock may go back before its earlier time counts as wrong.
const LONGEST_STEP_BACK: u64 = 60_000_000;

impl Bucket {
    /// A full bucket.
    #[must_use]
    pub fn new(quota: ExactQuota, now: u64) -> Self {
        Self::holding(quota, quota.burst(), now)
    }

    /// An empty bucket, as an outage policy starts with ([L10]).
    ///
    /// [L10]: crate::contract#l10
    #[must_use]
    pub fn empty(quota: ExactQuota, now: u64) -> Self {
        Self::holding(quota, 0, now)
    }

    fn holding(quota: ExactQuota, tokens: u64, now: u64) -> Self {
        Self { quota, level: Level::whole(tokens), last: now.min(MAX), reservations: Reservations::default() }
    }

    /// The quota in force.
    #[must_use]
    pub fn quota(&self) -> &ExactQuota {
        &self.quota
    }

    /// The latest time seen, in µs: that of the last call which was not a look alone.
    #[must_use]
    pub fn last_used(&self) -> u64 {
        self.last
    }

    /// Takes `cost` if that much is there ([L1]). A cost of 0 takes nothing and is allowed while
    /// there is no debt ([L9]).
    ///
    /// May be allowed while reservations are ahead, if a cancelled one gave tokens back: they keep
    /// their times.
    ///
    /// # Errors
    /// `InvalidArgument` if the cost is over the burst.
    ///
    /// [L1]: crate::contract#l1
    /// [L9]: crate::contract#l9
    #[inline]
    pub fn take(&mut self, now: u64, cost: u64) -> Result<Verdict> {
        self.quota.check_cost(cost)?;
        self.advance(now);
        let allowed = self.level.covers(cost);
        if allowed && let Some(level) = self.level.debit(cost) {
            self.level = level;
            if !self.reservations.is_empty() {
                self.reservations.charge(cost);
            }
        }
        Ok(self.verdict(self.level, now, cost, allowed))
    }

    /// Returns the answer of a [`take`](Self::take) of 0, and changes nothing.
    #[must_use]
    pub fn peek(&self, now: u64) -> Verdict {
        let level = self.level_at(now);
        self.verdict(level, now, 0, level.covers(0))
    }

    /// Takes a place in the future for `cost`, at most `max_wait` µs after `now`; `None`, without
    /// cost, if there is none that soon or if the debt would reach 2⁵³ tokens ([L6]).
    ///
    /// The place is never before that of an earlier live reservation. The same id again gets the
    /// same place. A cost of 0 gets the time at which there is no debt and nobody waits; it takes
    /// and holds no place.
    ///
    /// # Errors
    /// `InvalidArgument` if the cost is over the burst.
    ///
    /// [L6]: crate::contract#l6
    pub fn reserve(&mut self, now: u64, id: u128, cost: u64, max_wait: u64) -> Result<Option<Reserved>> {
        self.quota.check_cost(cost)?;
        self.advance(now);
        if let Some(ready_at) = self.reservations.ready_at(id) {
            return Ok(Some(self.reserved(now, ready_at)));
        }
        let Some((level, ready_at)) = self.place(cost) else {
            return Ok(None);
        };
        let reserved = self.reserved(now, ready_at);
        if reserved.wait > max_wait {
            return Ok(None);
        }
        if cost > 0 {
            self.level = level;
            if ready_at > self.last {
                self.reservations.insert(id, cost, ready_at);
            }
        }
        Ok(Some(reserved))
    }

    /// Cancels a reservation before its time and returns the refund, in tokens; 0 if its time has
    /// come, or if it was cancelled before or is not known ([L7]).
    ///
    /// It gives back `clamp(cost − cost taken later, 0, cost)`, where later reservations that were
    /// given back in full do not count; the discount is that of `Reservation.CancelAt` in
    /// `golang.org/x/time/rate`. If anything was taken later, it gives back at most `burst − r −
    /// cost taken later`, with `r = ⌈(amount − 1) / period⌉`: later reservations keep times that
    /// were rounded up to the microsecond, so that a full refund could admit more than the burst
    /// ([L1]).
    ///
    /// [L7]: crate::contract#l7
    /// [L1]: crate::contract#l1
    pub fn cancel(&mut self, now: u64, id: u128) -> u64 {
        self.advance(now);
        // The most that rounding a time up to the next microsecond can have left over, in whole
        // tokens.
        let rounding = (self.quota.amount() - 1).div_ceil(self.quota.period());
        let refund = self.reservations.cancel(id, self.quota.burst().saturating_sub(rounding));
        self.level = self.level.credit(&self.quota, refund);
        refund
    }

    /// Changes the quota. The content stays, with its fraction rounded down and at most the new
    /// burst; so does debt.
    ///
    /// Live reservations keep their times. A window that contains one made under an earlier quota
    /// can exceed the bound of the new quota by its cost.
    pub fn set_quota(&mut self, now: u64, quota: ExactQuota) {
        self.advance(now);
        self.level = self.level.converted(&self.quota, &quota);
        self.quota = quota;
    }

    /// Fills the bucket and forgets all reservations. The latest time seen stays, unless it was
    /// wrong ([L4]).
    ///
    /// [L4]: crate::contract#l4
    pub fn reset(&mut self, now: u64) {
        self.advance(now);
        self.level = Level::whole(self.quota.burst());
        self.reservations = Reservations::default();
    }

    /// Whether the bucket is full and no reservation is live: a new one would say the same.
    #[must_use]
    pub fn is_full(&self, now: u64) -> bool {
        self.full_at() <= now.min(MAX).max(self.last)
    }

    /// The time from which [`is_full`](Self::is_full) holds if nobody takes, in µs, at most 2⁵³ − 1
    /// ([C25]).
    ///
    /// [C25]: crate::contract#c25
    #[must_use]
    pub fn full_at(&self) -> u64 {
        let full = self.last + self.level.wait_for(&self.quota, self.quota.burst());
        full.min(MAX).max(self.reservations.latest().unwrap_or(0))
    }

    #[inline]
    fn level_at(&self, now: u64) -> Level {
        self.level.after(&self.quota, now.min(MAX).saturating_sub(self.last), self.quota.burst())
    }

    #[inline]
    fn advance(&mut self, now: u64) {
        let now = now.min(MAX);
        if now <= self.last {
            if self.last - now > LONGEST_STEP_BACK {
                self.begin_again(now);
            }
            return;
        }
        self.level = self.level_at(now);
        self.last = now;
        if !self.reservations.is_empty() {
            self.reservations.purge(now);
        }
    }

    /// Forgets the times of a clock that was wrong.
    #[cold]
    fn begin_again(&mut self, now: u64) {
        self.last = now;
        self.reservations = Reservations::default();
    }

    /// By how much the clock has gone back; 0 if its earlier time was wrong.
    #[inline]
    fn behind(&self, now: u64) -> u64 {
        match self.last.saturating_sub(now) {
            wrong if wrong > LONGEST_STEP_BACK => 0,
            behind => behind,
        }
    }

    /// The content after a debit of `cost`, and the time from which it is not negative and nobody
    /// waits.
    fn place(&self, cost: u64) -> Option<(Level, u64)> {
        let level = self.level.debit(cost)?;
        let wait = level.wait_for(&self.quota, 0);
        let own = self.last + wait;
        let latest = self.reservations.latest().unwrap_or(0);
        if own > MAX {
            return None;
        }
        if wait == 0 || own < latest {
            return Some((level, own.max(latest)));
        }
        // The time is rounded up, and what flows in meanwhile must fit into the burst beside this
        // cost: a caller who came only then would have found a full bucket (L1).
        Some((level.trimmed(&self.quota, wait, self.quota.burst() - cost)?, own))
    }

    fn reserved(&self, now: u64, ready_at: u64) -> Reserved {
        Reserved { ready_at, wait: counted(self.behind(now), ready_at - self.last) }
    }

    #[inline]
    fn verdict(&self, level: Level, now: u64, cost: u64, allowed: bool) -> Verdict {
        Snapshot::of(self.quota, level, self.behind(now)).verdict(cost, allowed)
    }
}
