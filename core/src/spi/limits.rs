//! The requests about limiters: the arithmetic of [`Bucket`](crate::limiter::Bucket), by the
//! store's clock, read once for each batch.

use super::{Object, ParameterCheck};
use crate::Ticket;
use crate::limiter::{ExactQuota, Reserved, Verdict};

/// Identifies the batch that a request leaves in; the same in every retry of it. Batches of one
/// sequence never overlap: a store keeps, for each name and sequence, its last answer for 60 s, and
/// answers a retry with it ([L5]). A batch that arrives after a later one of its sequence is
/// refused as `Unknown`.
///
/// [L5]: crate::contract#l5
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    /// The sequence, of one process.
    pub sequence: Ticket,
    /// The number in the sequence: from 1, increasing.
    pub number: u64,
}

impl RequestId {
    /// Of a request that has no id yet: the engine sets it when the request leaves.
    pub const NONE: Self = Self { sequence: Ticket::NONE, number: 0 };
}

/// The content of a limiter call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitAsk {
    /// [`Bucket::take`](crate::limiter::Bucket::take).
    Take {
        /// Tokens; 0 takes none.
        cost: u64,
    },
    /// [`Bucket::reserve`](crate::limiter::Bucket::reserve).
    Reserve {
        /// Identifies the reservation; a refund names it.
        ticket: Ticket,
        /// Tokens.
        cost: u64,
        /// Maximum wait, in µs.
        max_wait: u64,
    },
}

/// One call of one caller. The calls of a batch for one name are decided in order, all at one
/// moment of store time. A call of cost 0, or of more than the burst, MUST NOT make a bucket: on a
/// name without one it is answered by a full bucket with its quota ([C20]). A retry MUST be
/// answered as the first attempt; in a retry, calls that no caller waits for any more may be
/// replaced by takes of 0. No retry is sent later than 55 s after the first attempt.
///
/// Waits in an answer count from the attempt that is answered: those of a retry are shorter than
/// the first decision's by the store time since, at least 0, never longer. Counted from the first
/// attempt, a reservation would look later than it is, and a caller with a time limit would give up
/// one that is ready in time.
///
/// [C20]: crate::contract#c20
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decide {
    /// The batch that it leaves in.
    pub id: RequestId,
    /// The limiter.
    pub object: Object,
    /// The quota as the caller knows it.
    pub quota: ExactQuota,
    /// How the quota is compared.
    pub check: ParameterCheck,
    /// The content.
    pub ask: LimitAsk,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limited {
    /// The answer to a take.
    Taken {
        /// The decision.
        verdict: Verdict,
        /// The quota in force.
        quota: ExactQuota,
        /// No reservation is outstanding: a refusal holds until its time comes, unless the quota is
        /// changed or the limiter is reset.
        settled: bool,
    },
    /// The answer to a reserve.
    Reserved {
        /// The reservation; `None` if none is ready within the maximum wait.
        place: Option<Reserved>,
        /// The quota in force.
        quota: ExactQuota,
    },
    /// A refund of this ticket was executed first: the reserve is refused for good ([C4]).
    ///
    /// [C4]: crate::contract#c4
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

/// Cancels a reservation: [`Bucket::cancel`](crate::limiter::Bucket::cancel). The refund of an
/// unknown reservation leaves a tombstone for 60 s, which refuses a reserve that arrives after its
/// refund ([C4]).
///
/// [C4]: crate::contract#c4
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    /// The limiter.
    pub object: Object,
    /// The reservation. A second refund of it is answered as the first, for 60 s ([L7]).
    ///
    /// [L7]: crate::contract#l7
    pub ticket: Ticket,
}

/// [`Bucket::set_quota`](crate::limiter::Bucket::set_quota); a name without a bucket gets a full
/// one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetQuota {
    /// The limiter.
    pub object: Object,
    /// The new quota.
    pub quota: ExactQuota,
}

/// [`Bucket::reset`](crate::limiter::Bucket::reset); a name without a bucket stays without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The limiter.
    pub object: Object,
}
