//! The clauses of the limiter. The exact arithmetic is checked where it lives, in core and with a store's manual clock
//! (L3, L4); here the bounds are those that a caller's clock around each call can show.

mod decisions;
mod parameters;
mod rate;
mod reservations;

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

/// A quota whose bucket hardly fills during a test.
fn slow(burst: u64) -> Quota {
    Quota::per_hour(1).burst(burst)
}
