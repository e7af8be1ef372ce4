//! The limiter as the contract describes it, in wide integers: slow, obvious, and written without
//! the bucket's tricks.
//!
//! The content is one number, in units of `1 / period` token; nothing overflows an `i128`.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

use std::time::Duration;

use proptest::prelude::*;
use stanchion_core::limiter::{Bucket, ExactQuota, MAX, Quota, Verdict};

/// `amount` per `period` µs.
pub(crate) fn quota(amount: u64, period: u64, burst: u64) -> ExactQuota {
    Quota::per(amount, Duration::from_micros(period)).burst(burst).validate().unwrap()
}

/// The fields of a [`Verdict`] in their order.
pub(crate) type Answer = (bool, u64, u64, Option<u64>, u64);

pub(crate) fn answer(verdict: Verdict) -> Answer {
    (verdict.allowed, verdict.limit, verdict.remaining, verdict.retry_after, verdict.reset_after)
}

/// A charge in the order of time: what a cancelled reservation looks back at.
#[derive(Clone, Debug)]
struct Charge {
    id: Option<u128>,
    cost: i128,
    ready_at: i128,
    live: bool,
    given_back_in_full: bool,
}

/// The reference bucket.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    amount: i128,
    period: i128,
    burst: i128,
    level: i128,
    last: i128,
    charges: Vec<Charge>,
}

impl Model {
    pub(crate) fn new(quota: ExactQuota, now: u64) -> Self {
        let (amount, period, burst) = terms(quota);
        Self { amount, period, burst, level: burst * period, last: i128::from(now), charges: Vec::new() }
    }

    fn advance(&mut self, now: u64) {
        if self.last - i128::from(now) > 60_000_000 {
            self.last = now.into();
            self.charges.clear();
        }
        let now = i128::from(now).max(self.last);
        self.level = (self.level + (now - self.last) * self.amount).min(self.burst * self.period);
        self.last = now;
        for charge in &mut self.charges {
            charge.live &= charge.ready_at > now;
        }
    }

    fn wait_for(&self, level: i128, tokens: i128) -> i128 {
        let missing = (tokens * self.period - level).max(0);
        ((missing + self.amount - 1) / self.amount).min(i128::from(MAX))
    }

    fn since(&self, now: u64, wait: i128) -> u64 {
        let back = self.last - i128::from(now).min(self.last);
        let wait = if wait == 0 { 0 } else { (back + wait).min(i128::from(MAX)) };
        u64::try_from(wait).unwrap()
    }

    fn latest(&self) -> i128 {
        self.charges.iter().filter(|charge| charge.live).map(|charge| charge.ready_at).max().unwrap_or(0)
    }

    pub(crate) fn take(&mut self, now: u64, cost: u64) -> Answer {
        self.advance(now);
        let wanted = i128::from(cost) * self.period;
        let allowed = self.level >= wanted;
        if allowed {
            self.level -= wanted;
            self.charges.push(Charge {
                id: None,
                cost: cost.into(),
                ready_at: self.last,
                live: false,
                given_back_in_full: false,
            });
        }
        let remaining = u64::try_from(self.level.div_euclid(self.period).max(0)).unwrap();
        let retry = (!allowed).then(|| self.since(now, self.wait_for(self.level, cost.into())));
        let reset = self.since(now, self.wait_for(self.level, self.burst));
        (allowed, u64::try_from(self.burst).unwrap(), remaining, retry, reset)
    }

    pub(crate) fn reserve(&mut self, now: u64, id: u128, cost: u64, max_wait: u64) -> Option<(u64, u64)> {
        self.advance(now);
        let told = |model: &Self, ready_at: i128| {
            (u64::try_from(ready_at).unwrap(), model.since(now, ready_at - model.last))
        };
        if let Some(charge) = self.charges.iter().find(|charge| charge.live && charge.id == Some(id)) {
            return Some(told(self, charge.ready_at));
        }
        let mut level = self.level - i128::from(cost) * self.period;
        let wait = self.wait_for(level, 0);
        let ready_at = (self.last + wait).max(self.latest());
        if wait > 0 && ready_at == self.last + wait {
            // At its time the content, this cost included, is within the burst.
            level = level.min((self.burst - i128::from(cost)) * self.period - wait * self.amount);
        }
        let debt = -level.div_euclid(self.period);
        let place = told(self, ready_at);
        if self.last + wait > i128::from(MAX) || debt > i128::from(MAX) || place.1 > max_wait {
            return None;
        }
        if cost > 0 {
            self.level = level;
            let live = ready_at > self.last;
            self.charges.push(Charge {
                id: Some(id),
                cost: cost.into(),
                ready_at,
                live,
                given_back_in_full: false,
            });
        }
        Some(place)
    }

    pub(crate) fn cancel(&mut self, now: u64, id: u128) -> u64 {
        self.advance(now);
        let Some(at) = self.charges.iter().position(|charge| charge.live && charge.id == Some(id)) else {
            return 0;
        };
        let behind: i128 =
            self.charges[at + 1..].iter().filter(|c| !c.given_back_in_full).map(|charge| charge.cost).sum();
        let cost = self.charges[at].cost;
        let rounding = (self.amount - 1 + self.period - 1) / self.period;
        let most = if behind == 0 { cost } else { cost.min(self.burst - rounding) };
        let refund = (most - behind).max(0);
        self.charges[at].live = false;
        self.charges[at].given_back_in_full = refund == cost;
        self.level = (self.level + refund * self.period).min(self.burst * self.period);
        u64::try_from(refund).unwrap()
    }

    pub(crate) fn set_quota(&mut self, now: u64, quota: ExactQuota) {
        self.advance(now);
        let (amount, period, burst) = terms(quota);
        let (tokens, fraction) = (self.level.div_euclid(self.period), self.level.rem_euclid(self.period));
        let level = tokens * period + fraction * period / self.period;
        (self.amount, self.period, self.burst) = (amount, period, burst);
        self.level = level.min(burst * period);
    }

    pub(crate) fn reset(&mut self, now: u64) {
        self.advance(now);
        self.level = self.burst * self.period;
        self.charges.clear();
    }

    pub(crate) fn full_at(&self) -> u64 {
        let full = (self.last + self.wait_for(self.level, self.burst)).min(i128::from(MAX));
        u64::try_from(full.max(self.latest())).unwrap()
    }
}

fn terms(quota: ExactQuota) -> (i128, i128, i128) {
    (quota.amount().into(), quota.period().into(), quota.burst().into())
}

/// One call, as drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Take(u64),
    Reserve { id: u8, cost: u64, max_wait: u64 },
    Cancel(u8),
}

/// Quotas whose numbers are so small that rounding and the burst meet often.
pub(crate) fn small_quota() -> impl Strategy<Value = ExactQuota> {
    (1_u64..12, 1_u64..30, 1_u64..12).prop_map(|(amount, period, burst)| quota(amount, period, burst))
}

/// Any exact quota: the terms' sizes in bits are drawn, so that every magnitude occurs.
pub(crate) fn any_quota() -> impl Strategy<Value = ExactQuota> {
    let bits =
        |most: u32| (0..=most).prop_flat_map(|bits| (1_u64 << bits >> 1).max(1)..=(1 << bits).min(MAX));
    (bits(52), bits(53)).prop_flat_map(move |(amount, burst)| {
        let longest = MAX / amount;
        (bits(longest.ilog2() + 1), Just(amount), Just(burst))
            .prop_map(move |(period, amount, burst)| quota(amount, period.min(longest), burst))
    })
}

/// Applies a call to the bucket and says what it admits, when, and for which reservation.
pub(crate) fn apply(bucket: &mut Bucket, now: u64, call: Call) -> Option<(u64, u64, Option<u8>)> {
    let burst = bucket.quota().burst();
    match call {
        Call::Take(cost) => {
            let cost = cost % (burst + 1);
            bucket.take(now, cost).unwrap().allowed.then_some((now, cost, None))
        }
        Call::Reserve { id, cost, max_wait } => {
            let cost = cost % (burst + 1);
            let reserved = bucket.reserve(now, id.into(), cost, max_wait).unwrap()?;
            Some((reserved.ready_at, cost, Some(id)))
        }
        Call::Cancel(id) => {
            bucket.cancel(now, id.into());
            None
        }
    }
}
