//! The requests about wait groups, beside those about their members. Members are added, renewed and
//! ended as other holds are, on objects of kind [`Kind::WaitGroup`](crate::Kind::WaitGroup), which
//! count how members end: the end of a lease as expired, a release by its
//! [`Ending`](super::Ending), a cancel not at all.

use std::time::Duration;

use super::Object;
use crate::{Outcome, Ticket, Ttl};

/// The limit of a wait group without a limit.
pub const NO_LIMIT: u32 = u32::MAX;

/// A request for the state of a group. It makes no record. A retry notes the process again and is
/// answered by the state at its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The group.
    pub object: Object,
    /// The generation to watch: while it is open, the process is noted, and the end of the
    /// generation sends `hint` to the process once. 0 is the generation that is open now. `None`
    /// watches nothing.
    pub watch: Option<u64>,
    /// The hint: one for each group and process, whatever the number of callers.
    pub hint: Ticket,
}

/// The state of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// The epoch of the record, as [`Polled::epoch`](super::Polled::epoch); 0 if there is no
    /// record. It MUST be the same in all generations for as long as the record is kept; a count of
    /// zero does not end it. A value that differs from the one seen before says that the record was
    /// lost: a handle that saw the group live returns `StateLost` ([W6]).
    ///
    /// [W6]: crate::contract#w6
    pub epoch: u64,
    /// Number of live members.
    pub count: u64,
    /// The generation that is open or, at a count of zero, that ended last. Counts from 1 in each
    /// record; 0 if no member was ever added.
    pub generation: u64,
    /// How the watched generation ended; without one, at a count of zero, how the last one ended.
    /// `None` while it is open. A store that keeps only the last few outcomes returns the sum of
    /// the forgotten ones and the oldest known one, so that no failed member is left out ([W4]).
    ///
    /// [W4]: crate::contract#w4
    pub ended: Option<Outcome>,
    /// Time until the next member's lease ends, by the store's clock.
    pub next: Option<Duration>,
}

/// Maximum number of tickets of one [`Split`] ([C27]).
///
/// [C27]: crate::contract#c27
pub const MAX_SPLIT: usize = 500;

/// A request to split holds of weight 1 off a hold, with the same token and new leases, in one
/// change or not at all. A tombstone of the hold, or of one of the new tickets, refuses the split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The group.
    pub object: Object,
    /// The hold of weight `into.len()`, which ends, or of more, which keeps the rest of its weight
    /// and its ticket.
    pub from: Ticket,
    /// The tickets of the new holds, [`MAX_SPLIT`] at most. If one of them is held, this is a
    /// second split into the same tickets, and is answered as the first, with new leases.
    pub into: Vec<Ticket>,
    /// The lease of the new holds, and of the rest, counted from the moment of the step.
    pub lease: Ttl,
}
