//! The steps of limiters.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{Answers, Object};
use crate::limiter::{ExactQuota, Reserved, Verdict};
use crate::{OnMismatch, Result, Ticket};

/// Names one request, the same in every retry of it. Flights of one lane never overlap: a store keeps, for each name
/// and lane, what it answered last, for 60 s, and answers a retry from that (L5). A flight that comes after a later one
/// of its lane is refused as `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    /// The lane, of one process.
    pub lane: Ticket,
    /// Its number in the lane, from 1, growing.
    pub number: u64,
}

/// How the quota that a caller brings is compared with the stored one (C20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaCheck {
    /// The handle's first operation.
    First(OnMismatch),
    /// Later ones: the stored one is followed; the brought one is used only where none is stored.
    Follow,
}

impl QuotaCheck {
    /// How a store is told: `r` to refuse, `p` to replace, `a` to adopt or follow the stored one.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::First(OnMismatch::Refuse) => "r",
            Self::First(OnMismatch::Replace) => "p",
            Self::First(OnMismatch::Adopt) | Self::Follow => "a",
        }
    }
}

/// What a limiter is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitAsk {
    /// [`Bucket::take`](crate::limiter::Bucket::take).
    Take {
        /// Tokens; 0 only asks.
        cost: u64,
    },
    /// [`Bucket::reserve`](crate::limiter::Bucket::reserve).
    Reserve {
        /// Names the reservation, which is cancelled by it.
        ticket: Ticket,
        /// Tokens.
        cost: u64,
        /// The longest wait, in µs.
        max_wait: u64,
    },
}

/// One call of one caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitCall {
    /// The limiter.
    pub object: Object,
    /// The quota as the caller knows it.
    pub quota: ExactQuota,
    /// How it is compared.
    pub check: QuotaCheck,
    /// What is asked.
    pub ask: LimitAsk,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// To a take.
    Taken {
        /// The decision.
        verdict: Verdict,
        /// The quota in force.
        quota: ExactQuota,
        /// No reservation is outstanding: a refusal holds until its time comes, unless somebody changes the quota or
        /// resets the limiter.
        settled: bool,
    },
    /// To a reserve.
    Reserved {
        /// The place; `None` if there is none that soon.
        place: Option<Reserved>,
        /// The quota in force.
        quota: ExactQuota,
    },
    /// A refund of this ticket came first: it is refused for good (C4).
    Cancelled,
    /// The stored quota differs and the check refuses that.
    Mismatch {
        /// The stored quota.
        stored: ExactQuota,
    },
    /// The cost is over the burst in force.
    TooLarge {
        /// The quota in force.
        quota: ExactQuota,
    },
}

/// Cancels a reservation: [`Bucket::cancel`](crate::limiter::Bucket::cancel). One that is not known leaves a tombstone for
/// 60 s, which refuses the reserve that the refund overtook (C4).
#[derive(Clone, Debug)]
pub struct Refund {
    /// The limiter.
    pub object: Object,
    /// The reservation. A second refund of it is answered as the first, for 60 s (L7).
    pub ticket: Ticket,
}

/// The steps of limiters: the arithmetic of [`Bucket`](crate::limiter::Bucket), by the store's clock, read once for each
/// request.
#[async_trait]
pub trait LimitSteps: Debug + Send + Sync {
    /// Steps on objects of one lane can leave in one request.
    fn lane(&self, object: &Object) -> usize;

    /// Decides calls in order, all at one moment of store time. A retry of a flight is answered as the first, also with
    /// calls that nobody waits for any more replaced by takes of 0; none comes later than 55 s after the first.
    ///
    /// Waits in an answer count from the attempt that is answered: those of a retry are shorter than the first
    /// decision's by the store time since, at least 0, and never longer. Counted from the first they would make a place
    /// look later than it is, and a caller with a time limit would give up one that comes in time.
    async fn decide(&self, flight: RequestId, calls: &[LimitCall]) -> Answers<Limited>;

    /// Cancels reservations and tells how much each gave back: 0 where nothing is left to give.
    async fn refund(&self, batch: &[Refund]) -> Answers<u64>;

    /// [`Bucket::set_quota`](crate::limiter::Bucket::set_quota); a name without a bucket gets a full one.
    ///
    /// # Errors
    /// As said for all steps.
    async fn set_quota(&self, object: &Object, quota: ExactQuota) -> Result<()>;

    /// [`Bucket::reset`](crate::limiter::Bucket::reset); a name without a bucket stays without.
    ///
    /// # Errors
    /// As said for all steps.
    async fn reset(&self, object: &Object) -> Result<()>;
}
