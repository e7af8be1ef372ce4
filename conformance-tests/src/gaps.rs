//! What a store of this workspace does not do yet, said openly.
//!
//! Every clause of the contract has a case for every store, or stands here with its reason. `cargo xtask coverage`
//! prints the gaps, and fails when a clause has neither, or when a gap has become stale.

/// One clause, or all clauses of one kind, that a store does not fulfil yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The store: `memory`, `redis` or `postgres`.
    pub store: &'static str,
    /// A clause like `C22`, or a letter like `W` for all clauses that begin with it.
    pub clause: &'static str,
    /// Why, in words for a user of the store.
    pub reason: &'static str,
}

/// All known gaps.
pub const GAPS: &[Gap] = &[];
