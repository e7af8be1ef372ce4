//! Rules that a store can break, to see that the suite notices.

/// One rule of the steps that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A repeated ticket takes a second hold.
    GrantsAgain,
    /// The answer to a release call is not kept for its retry.
    ForgetsCalls,
    /// A cancel leaves no tombstone.
    LeavesNoTombstone,
    /// A retried acquire keeps the lease of the first one.
    KeepsTheOldLease,
    /// A refused acquire stores its limit.
    StoresRefusedLimits,
    /// An attach takes a hold over that was not detached for it.
    AttachesAnything,
}
