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

const NO_POSTGRES: &str = "the crate is empty: the Postgres store is not written yet";
/// All known gaps.
pub const GAPS: &[Gap] = &[
    Gap { store: "postgres", clause: "C", reason: NO_POSTGRES },
    Gap { store: "postgres", clause: "M", reason: NO_POSTGRES },
    Gap { store: "postgres", clause: "S", reason: NO_POSTGRES },
    Gap { store: "postgres", clause: "W", reason: NO_POSTGRES },
    Gap { store: "postgres", clause: "L", reason: NO_POSTGRES },
];
