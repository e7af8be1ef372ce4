//! Limiters, driven by their steps.

use std::time::Duration;

use stanchion_core::steps::{RequestId, LimitAsk, Limited, Object};
use stanchion_core::limiter::{ExactQuota, MAX, Reserved, Verdict};
use stanchion_core::{Kind, Name, Quota, Ticket};

/// A second, in µs.
pub const SECOND: u64 = 1_000_000;
/// An hour, in µs.
pub const HOUR: u64 = 3_600 * SECOND;

/// The limiter of that name.
///
/// # Panics
/// If it is no name.
#[must_use]
pub fn limiter(name: &str) -> Object {
    Object { kind: Kind::Limiter, name: Name::new(name).expect("a name") }
}

/// So many tokens in `period` µs, and a burst.
///
/// # Panics
/// If that is no quota.
#[must_use]
pub fn quota(amount: u64, period: u64, burst: u64) -> ExactQuota {
    Quota::per(amount, Duration::from_micros(period)).burst(burst).validate().expect("a quota")
}

/// Takes so many tokens.
#[must_use]
pub fn take(cost: u64) -> LimitAsk {
    LimitAsk::Take { cost }
}

/// Reserves so many tokens, however late they come.
#[must_use]
pub fn reserve(ticket: Ticket, cost: u64) -> LimitAsk {
    LimitAsk::Reserve { ticket, cost, max_wait: MAX }
}

/// What a take was told.
///
/// # Panics
/// If it was no take that was told.
#[must_use]
pub fn verdict(limited: &Limited) -> Verdict {
    match limited {
        Limited::Taken { verdict, .. } => *verdict,
        other => panic!("not taken but {other:?}"),
    }
}

/// Whether a take was allowed, and what remained.
#[must_use]
pub fn remaining(limited: &Limited) -> (bool, u64) {
    let verdict = verdict(limited);
    (verdict.allowed, verdict.remaining)
}

/// What a reserve was told.
///
/// # Panics
/// If it has no place.
#[must_use]
pub fn place(limited: &Limited) -> Reserved {
    match limited {
        Limited::Reserved { place: Some(place), .. } => *place,
        other => panic!("no place but {other:?}"),
    }
}

/// A lane's flights, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Lane(RequestId);

impl Lane {
    /// A lane of its own, without flights.
    #[must_use]
    pub fn new() -> Self {
        Self(RequestId { lane: Ticket::random(), number: 0 })
    }

    /// The next flight.
    #[must_use]
    pub fn next_id(&mut self) -> RequestId {
        self.0.number += 1;
        self.0
    }
}

impl Default for Lane {
    fn default() -> Self {
        Self::new()
    }
}
