//! The content of a bucket and how it grows. Every sum, difference and product here is exact in a
//! double.

use super::{ExactQuota, MAX};

/// Whole tokens, negative while reservations are ahead, and a fraction in units of `1 / period`
/// token.
///
/// Invariants: `-MAX <= tokens <= burst`, `fraction < period`, `fraction == 0` when `tokens ==
/// burst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    tokens: i64,
    fraction: u64,
}

impl Level {
    /// A content of whole tokens, at most [`MAX`].
    #[inline]
    pub(super) fn whole(tokens: u64) -> Self {
        Self { tokens: tokens.min(MAX).cast_signed(), fraction: 0 }
    }

    /// A content as a store keeps it; `None` outside the invariants.
    pub(super) fn stored(quota: &ExactQuota, tokens: i64, fraction: u64) -> Option<Self> {
        let full = tokens >= 0 && tokens.unsigned_abs() >= quota.burst();
        let legal = tokens.unsigned_abs() <= MAX
            && fraction < quota.period()
            && (!full || tokens.unsigned_abs() == quota.burst() && fraction == 0);
        legal.then_some(Self { tokens, fraction })
    }

    /// What could be taken now.
    #[inline]
    pub(super) fn available(self) -> u64 {
        self.tokens.max(0).unsigned_abs()
    }

    #[inline]
    pub(super) fn covers(self, cost: u64) -> bool {
        self.tokens >= 0 && self.tokens.unsigned_abs() >= cost
    }

    /// The content `elapsed` µs later, at most `cap` tokens. What does not fit is lost.
    #[inline]
    pub(super) fn after(self, quota: &ExactQuota, elapsed: u64, cap: u64) -> Self {
        if self.covers(cap) {
            return Self::whole(cap);
        }
        let (amount, period) = (quota.amount(), quota.period());
        let (periods, rest) =
            if elapsed < period { (0, elapsed) } else { (elapsed / period, elapsed % period) };
        let parts = rest * amount; // rest < period, so below amount · period < 2^53
        let (mut gain, part) = (parts / period, parts % period);
        let missing = period - self.fraction;
        let fraction = if part >= missing {
            gain += 1;
            part - missing
        } else {
            part + self.fraction
        };
        let Some(tokens) = raise(self.tokens, amount, periods, cap) else {
            return Self::whole(cap);
        };
        let grown = Self { tokens: tokens.saturating_add_unsigned(gain), fraction };
        if grown.covers(cap) { Self::whole(cap) } else { grown }
    }

    /// How long until `target` tokens are there, in µs rounded up, at most [`MAX`].
    #[inline]
    pub(super) fn wait_for(self, quota: &ExactQuota, target: u64) -> u64 {
        let (amount, period) = (quota.amount(), quota.period());
        let (mut periods, mut rest) = if self.tokens >= 0 {
            let missing = target.saturating_sub(self.tokens.unsigned_abs());
            (missing / amount, missing % amount)
        } else {
            divided_sum(self.tokens.unsigned_abs(), target, amount)
        };
        if rest == 0 {
            if periods == 0 {
                return 0;
            }
            // The fraction is taken off the last period: a rest of 1 to amount is always more than
            // a fraction.
            (periods, rest) = (periods - 1, amount);
        }
        if periods > MAX / period {
            return MAX;
        }
        let wait = periods * period + (rest * period - self.fraction).div_ceil(amount);
        wait.min(MAX)
    }

    /// The content less `cost`; `None` if the debt would be 2⁵³ or more.
    #[inline]
    pub(super) fn debit(self, cost: u64) -> Option<Self> {
        if self.tokens < 0 && cost > MAX - self.tokens.unsigned_abs() {
            return None;
        }
        Some(Self { tokens: self.tokens.checked_sub_unsigned(cost)?, ..self })
    }

    /// The content lowered so that after `wait` µs it is at most `room` tokens; `None` as for
    /// [`debit`](Self::debit).
    pub(super) fn trimmed(self, quota: &ExactQuota, wait: u64, room: u64) -> Option<Self> {
        let then = self.after(quota, wait, MAX);
        if !then.covers(room) {
            return Some(self);
        }
        let borrow = then.fraction > self.fraction;
        let lowered = self.debit(then.available() - room)?.debit(u64::from(borrow))?;
        let kept = if borrow {
            quota.period() - then.fraction + self.fraction
        } else {
            self.fraction - then.fraction
        };
        Some(Self { fraction: kept, ..lowered })
    }

    /// The content with `tokens` given back, at most the burst.
    pub(super) fn credit(self, quota: &ExactQuota, tokens: u64) -> Self {
        let raised = Self { tokens: self.tokens.saturating_add_unsigned(tokens), ..self };
        if raised.covers(quota.burst()) { Self::whole(quota.burst()) } else { raised }
    }

    /// The content under another quota: the fraction rounded down to the new unit, at most the new
    /// burst.
    ///
    /// A port without wide integers gets `⌊fraction · new / old⌋` by doubling and adding over the
    /// bits of `new`, with quotient and remainder kept apart.
    pub(super) fn converted(self, old: &ExactQuota, new: &ExactQuota) -> Self {
        if self.covers(new.burst()) {
            return Self::whole(new.burst());
        }
        let scaled = u128::from(self.fraction) * u128::from(new.period()) / u128::from(old.period());
        // The quotient is below the new period, so it always fits.
        Self { fraction: u64::try_from(scaled).unwrap_or(0), ..self }
    }
}

/// `tokens + periods · amount`, or `None` if that is over `cap`. Debt is paid first, so that no
/// product is larger than the debt or the cap.
fn raise(mut tokens: i64, amount: u64, mut periods: u64, cap: u64) -> Option<i64> {
    if periods == 0 {
        return Some(tokens);
    }
    if tokens < 0 {
        let paid = periods.min(tokens.unsigned_abs() / amount);
        tokens = tokens.saturating_add_unsigned(paid * amount);
        periods -= paid;
        if periods == 0 {
            return Some(tokens);
        }
        tokens = tokens.saturating_add_unsigned(amount);
        periods -= 1;
    }
    let room = cap.checked_sub(tokens.unsigned_abs())?;
    (periods <= room / amount).then(|| tokens.saturating_add_unsigned(periods * amount))
}

/// Quotient and remainder of `(x + y) / by`, without the sum.
fn divided_sum(x: u64, y: u64, by: u64) -> (u64, u64) {
    let (quotient, x, y) = (x / by + y / by, x % by, y % by);
    if x >= by - y { (quotient + 1, x - (by - y)) } else { (quotient, x + y) }
}
