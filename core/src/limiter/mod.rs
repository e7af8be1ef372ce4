//! The arithmetic of the limiter: a token bucket in whole numbers, without a clock, without I/O.
//!
//! A [`Quota`] is written by the user, an [`ExactQuota`] is one whose arithmetic is exact, a
//! [`Bucket`] is the state of one name. Every call takes the time as an argument: microseconds of
//! the store's clock, any origin, below 2⁵³.
//!
//! # Algorithm
//! The token bucket with continuous refill, which admits the same as the generic cell rate
//! algorithm (ITU-T I.371, annex A, "virtual scheduling"). The content is kept as whole tokens and
//! a fraction counted in units of `1 / period` token, so that no rate has to be rounded to an
//! interval. Reservations take the content below zero, as in `golang.org/x/time/rate`, whose
//! `Reservation.CancelAt` is also the model of the refund.
//!
//! # Porting
//! Decisions must agree between stores to the microsecond ([L3]), and one of them calculates in
//! IEEE doubles. So every intermediate result on the way to a decision is a whole number whose
//! magnitude is below 2⁵³, or one that is only compared with a smaller one. [`GOLDEN`] holds calls
//! and the decisions they must give.
//!
//! [L3]: crate::contract#l3

mod bucket;
mod exact;
mod level;
mod quota;
mod reservations;
mod snapshot;

pub use bucket::{Bucket, Reserved, Verdict};
pub use exact::ExactQuota;
pub use quota::Quota;
pub use snapshot::Snapshot;

/// The largest cost, time and waiting time: 2⁵³ − 1. Longer waiting times are reported as this one
/// (285 years).
pub const MAX: u64 = (1 << 53) - 1;

/// A table of calls and the decisions that every store must give, to the microsecond ([L3]). Its
/// head says how to read it.
///
/// [L3]: crate::contract#l3
pub const GOLDEN: &str = include_str!("golden.txt");
