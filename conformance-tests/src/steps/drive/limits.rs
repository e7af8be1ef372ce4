//! Limiters, driven by their steps.

use std::time::Duration;

use stanchion_core::limiter::{ExactQuota, MAX, Reserved, Verdict};
use stanchion_core::spi::{LimitAsk, Limited, Object, RequestId};
use stanchion_core::{Kind, Name, Quota, Ticket};

/// A second, in µs.
pub const SECOND: u64 = 1_000_000;
/// An hour, in µs.
pub const HOUR: u64 = 3_600 * SECOND;

/// Returns the limiter of that name.
///
/// # Panics
/// If the name is invalid.
#[must_use]
pub fn limiter(name: &str) -> Object {
    Object { kind: Kind::Limiter, name: Name::new(name).expect("a name") }
}

/// Returns a quota of `amount` tokens in `period` µs with a burst.
///
/// # Panics
/// If the quota is invalid.
#[must_use]
pub fn quota(amount: u64, period: u64, burst: u64) -> ExactQuota {
    Quota::per(amount, Duration::from_micros(period)).burst(burst).validate().expect("a quota")
}

/// Returns a take of `cost` tokens.
#[must_use]
pub fn take(cost: u64) -> LimitAsk {
    LimitAsk::Take { cost }
}

/// Returns a reservation of `cost` tokens, however late they come.
#[must_use]
pub fn reserve(ticket: Ticket, cost: u64) -> LimitAsk {
    LimitAsk::Reserve { ticket, cost, max_wait: MAX }
}

/// Returns the verdict of a take.
///
/// # Panics
/// If it is no answer to a take.
#[must_use]
pub fn verdict(limited: &Limited) -> Verdict {
    match limited {
        Limited::Taken { verdict, .. } => *verdict,
        other => panic!("not taken but {other:?}"),
    }
}

/// Returns whether a take was allowed, and how many tokens remained.
#[must_use]
pub fn remaining(limited: &Limited) -> (bool, u64) {
    let verdict = verdict(limited);
    (verdict.allowed, verdict.remaining)
}

/// Returns the place of a reservation.
///
/// # Panics
/// If it is no reservation with a place.
#[must_use]
pub fn place(limited: &Limited) -> Reserved {
    match limited {
        Limited::Reserved { place: Some(place), .. } => *place,
        other => panic!("no place but {other:?}"),
    }
}

/// Makes the ids of batches that do not overlap, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Sequence(RequestId);

impl Sequence {
    /// Creates a new sequence.
    #[must_use]
    pub fn new() -> Self {
        Self(RequestId { sequence: Ticket::random(), number: 0 })
    }

    /// Returns the id of the next batch.
    #[must_use]
    pub fn next_id(&mut self) -> RequestId {
        self.0.number += 1;
        self.0
    }
}

impl Default for Sequence {
    fn default() -> Self {
        Self::new()
    }
}
