//! The clauses of the limiter. Other tests check the exact arithmetic, in core and with a store's
//! manual clock (L3, L4). Here the bounds are as tight as a caller's clock around each call allows.

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

/// Opens a limiter with a new client, like another process.
async fn client(h: &dyn Harness, name: &str, quota: Quota) -> Arc<dyn Limiter> {
    h.store().await.limiter(name, LimiterOptions::new(quota)).expect("a limiter")
}

/// Returns the number of tokens in a bucket, negative for a debt. `token` is the interval between
/// two tokens. Computed from the time until the bucket is full.
async fn level(limiter: &dyn Limiter, burst: i64, token: std::time::Duration) -> i64 {
    let full_after = limiter.peek().await.expect("a decision").reset_after;
    let missing = full_after.as_micros().div_ceil(token.as_micros());
    burst - i64::try_from(missing).expect("a small number")
}

/// Returns a quota whose bucket hardly refills during a test.
fn slow(burst: u64) -> Quota {
    Quota::per_hour(1).burst(burst)
}
