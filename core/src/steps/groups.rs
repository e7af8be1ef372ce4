//! The steps of wait groups, beside those of their members.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use super::{Answers, Object};
use crate::{Outcome, Result, Ticket, Ttl};

/// The limit of a wait group that has none.
pub const NO_LIMIT: u32 = u32::MAX;

/// Asks how a group stands.
#[derive(Clone, Debug)]
pub struct Look {
    /// The group.
    pub object: Object,
    /// Wait for the end of this generation: while it is open, the process is noted, and its end pushes `hint` into the
    /// process's wake-ups, once. 0 means the one that is open now. `None` only asks.
    pub watch: Option<u64>,
    /// The hint. One for each group and process, however many callers wait there.
    pub hint: Ticket,
}

/// How a group stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Names the life of the record, as [`Polled::born`](super::Polled::born); 0 if there is none. It MUST be the same in all
    /// generations, for as long as the record is kept, which a count of zero does not end. Another value than before says
    /// that the record was lost: whoever saw the group live gets `StateLost` (W6).
    pub born: u64,
    /// The live members.
    pub count: u64,
    /// The generation that is open, or, at a count of zero, the one that ended last. Counts from 1 in each record; 0
    /// where no member was ever added.
    pub generation: u64,
    /// How the generation that was asked about ended; at a count of zero without one, the last. `None` while it is open.
    /// A store that keeps the last few outcomes only gives the sum of all that it has forgotten since and the oldest it
    /// knows: what went wrong is never left out (W4).
    pub ended: Option<Outcome>,
    /// In how long the next member's lease ends, by the store's clock.
    pub next: Option<Duration>,
}

/// Makes one hold of weight `n` into `n` holds of weight 1, with new leases. The token is kept.
#[derive(Clone, Debug)]
pub struct Split {
    /// The group.
    pub object: Object,
    /// The hold of weight `into.len()`.
    pub from: Ticket,
    /// The tickets it is split into. A second split into the same is answered as the first, with the leases anew.
    pub into: Vec<Ticket>,
    /// Their lease.
    pub lease: Ttl,
}

/// The steps of wait groups. Members are added, renewed and ended by [`PermitSteps`](super::PermitSteps) on objects of
/// kind [`Kind::WaitGroup`](crate::Kind::WaitGroup), which count how members end: an expired lease as expired, a
/// release by its [`Ending`](super::Ending), a cancel not at all.
#[async_trait]
pub trait GroupSteps: Debug + Send + Sync {
    /// Steps on objects of one lane can leave in one request.
    fn lane(&self, object: &Object) -> usize;

    /// Tells how groups stand. It makes no record. A retry notes the process again, and is answered by what is true then.
    async fn look(&self, batch: &[Look]) -> Answers<Looked>;

    /// Splits a hold, all of it or not at all; `false` if it is certainly gone. A tombstone of the hold, or of one of the
    /// tickets that it is split into, refuses it.
    ///
    /// # Errors
    /// As said for all steps.
    async fn split(&self, split: &Split) -> Result<bool>;
}
