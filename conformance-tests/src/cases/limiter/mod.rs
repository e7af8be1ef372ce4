//! The clauses of the limiter. The exact arithmetic is checked where it lives, in core and with a store's manual clock
//! (L3, L4); here the bounds are those that a caller's clock around each call can show.

mod cancel;
mod decisions;
mod parameters;
mod rate;
mod reservations;

pub(crate) use cancel::*;
pub(crate) use decisions::*;
pub(crate) use parameters::*;
pub(crate) use rate::*;
pub(crate) use reservations::*;

use std::sync::Arc;

use stanchion_core::{Limiter, LimiterOptions, Quota};

use crate::harness::Harness;

/// A limiter of a client of its own, as of another process.
async fn client(h: &dyn Harness, name: &str, quota: Quota) -> Arc<dyn Limiter> {
    h.store().await.limiter(name, LimiterOptions::new(quota)).expect("a limiter")
}

/// How many tokens of a bucket that gets one in that time are there, below zero as a debt: from the time until it is full.
async fn level(limiter: &dyn Limiter, burst: i64, token: std::time::Duration) -> i64 {
    let full_after = limiter.peek().await.expect("a decision").reset_after;
    let missing = full_after.as_micros().div_ceil(token.as_micros());
    burst - i64::try_from(missing).expect("a small number")
}

/// A quota whose bucket hardly fills during a test.
fn slow(burst: u64) -> Quota {
    Quota::per_hour(1).burst(burst)
}
