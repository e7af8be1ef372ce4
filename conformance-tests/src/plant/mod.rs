//! Stores with planted bugs, by which the suite is tested: each must be caught by a case named for it.
//!
//! A [`PlantedHarness`] wraps another harness. Its stores hand everything on to those of the inner one, except where the
//! [`Bug`] sits.

mod guard;
mod harness;
mod ledger;
mod limiter;
mod mutex;
mod semaphore;
mod store;
mod wait_group;

pub use harness::PlantedHarness;

/// A mistake that authors of stores make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bug {
    /// The release of a mutex does not ask whose hold it is.
    ReleaseWithoutOwner,
    /// The deadline counts from the reply instead of the sending, and some replies are slow.
    DeadlineFromReply,
    /// A mutex's lease in the store ends at half of its time.
    HalfLease,
    /// `is_held` says what the holder was told last, without looking at the clock.
    HeldUntilTold,
    /// `lost` waits for a word of the store that never comes.
    NeverLost,
    /// Fencing tokens come from a counter that begins anew after a loss of data.
    RestartedTokens,
    /// A waiter that missed its wake-up asks again after seconds only.
    LostWakeUp,
    /// Waiters ask again and again, and whoever asks at the right moment gets it.
    Barging,
    /// A dropped `lock` goes on in the background, and what it gets is never given back.
    CancelledAcquireLeaks,
    /// A time limit is taken in whole milliseconds, and none is no limit.
    ShortLimitIsNone,
    /// A retry after a lost reply makes a ticket of its own, so the first hold is nobody's.
    NewTicketOnRetry,
    /// Permits are counted first and taken later.
    OverTheLimit,
    /// A limit that differs from the store's is adopted without a word.
    SilentMismatch,
    /// Names are folded to lower case.
    FoldedNames,
    /// What was used once is kept for ever.
    IdleNamesAreKept,
    /// A wait group whose record is gone counts as one that came to zero.
    AbsentIsZero,
    /// The end of a member that is not there is taken for an end.
    UnknownDoneIsFine,
    /// The rate becomes an interval of whole milliseconds.
    RoundedInterval,
    /// A reservation that is dropped stays paid.
    DroppedReservationIsKept,
}
