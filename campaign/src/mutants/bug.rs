//! The list of planted bugs.

use std::fmt;

/// Where bugs are planted: each of them has tests of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MutantTarget {
    /// Into clients of the memory store.
    Memory,
    /// Into clients of the Redis store, and its scripts on their way to the server.
    Redis,
    /// Into clients of the Postgres store, and the functions of its schema.
    Postgres,
    /// Into the functions of the Postgres store's schema, below the engine.
    PostgresSteps,
}

impl fmt::Display for MutantTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Memory => "memory",
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::PostgresSteps => "postgres, by steps",
        })
    }
}

macro_rules! bugs {
    ($($(#[$doc:meta])+ $bug:ident [$($target:ident),+],)+) => {
        /// A mistake that authors of stores make.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Bug {
            $($(#[$doc])+ $bug,)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$bug),+];

            /// Where it is planted.
            #[must_use]
            pub fn targets(self) -> &'static [MutantTarget] {
                match self {
                    $(Self::$bug => &[$(MutantTarget::$target),+],)+
                }
            }
        }
    };
}

bugs! {
    /// The release of a mutex does not ask whose hold it is.
    ReleaseWithoutOwner [Memory],
    /// The deadline counts from the reply instead of the sending, and some replies are slow.
    DeadlineFromReply [Memory],
    /// A mutex's lease in the store ends at half of its time.
    HalfLease [Memory],
    /// `is_held` says what the holder was told last, without looking at the clock.
    HeldUntilTold [Memory],
    /// `lost` waits for a word of the store that never comes.
    NeverLost [Memory],
    /// Fencing tokens come from a counter that begins anew after a loss of data.
    RestartedTokens [Memory],
    /// A waiter that missed its wake-up asks again after seconds only.
    LostWakeUp [Memory],
    /// Waiters ask again and again, and whoever asks at the right moment gets it.
    Barging [Memory],
    /// A dropped `lock` goes on in the background, and what it gets is never given back.
    CancelledAcquireLeaks [Memory],
    /// A time limit is taken in whole milliseconds, and none is no limit.
    ShortLimitIsNone [Memory],
    /// A retry after a lost reply makes a ticket of its own, so the first hold is nobody's.
    NewTicketOnRetry [Memory],
    /// Permits are counted first and taken later.
    OverTheLimit [Memory],
    /// A limit that differs from the store's is adopted without a word.
    SilentMismatch [Memory],
    /// Names are folded to lower case.
    FoldedNames [Memory],
    /// What was used once is kept for ever.
    IdleNamesAreKept [Memory],
    /// A wait group whose record is gone counts as one that came to zero.
    AbsentIsZero [Memory],
    /// The end of a member that is not there is taken for an end.
    UnknownDoneIsFine [Memory],
    /// The rate becomes an interval of whole milliseconds.
    RoundedInterval [Memory],
    /// A reservation that is dropped stays paid.
    DroppedReservationIsKept [Memory],
    /// A Bloom filter tells as new what it did not contain a moment before the insert.
    LookedUpThenInserted [Memory],
    /// Whoever opens a Bloom filter begins with an empty one.
    OpeningClears [Memory],
    /// A Bloom filter that was lost counts as an empty one.
    LossIsEmpty [Memory],
    /// The bits of a Bloom filter's bytes are counted from the lowest.
    LowestBitFirst [Memory],
    /// Fencing tokens come from a counter in the store, which is lost with its data.
    BareCounter [Redis, Postgres],
    /// Fencing tokens come from a sequence of the database as it counts.
    BareSequence [Postgres],
    /// A session whose wait ended by `lock_timeout` is used on without a look whether it was granted the lock all the
    /// same.
    UncheckedTimeout [Postgres],
    /// The time of a limiter is that of each caller's clock.
    ClientsClock [Redis, Postgres],
    /// A charge whose reply was lost is charged again when it is sent again.
    ChargedAgain [Redis, Postgres, PostgresSteps],
    /// The clock that decides whether a hold has expired is read before the wait for its record.
    ClockBeforeLock [PostgresSteps],
    /// A holder whose store hangs believes until it answers.
    BelievesWhileAsking [Redis, Postgres],
    /// A grant is handed to a waiter when the lease it was given with has ended.
    LateGrant [Redis, Postgres],
    /// A semaphore's acquisition that is sent again after its reply was lost is granted once more, on the same ticket.
    CountedAgain [Redis],
    /// An acquisition that is sent again is answered with the lease that it had.
    RetryKeepsItsLease [Redis, Postgres],
    /// What an acquisition that was withdrawn left behind does not keep a late copy of it from being granted.
    TombstoneIsIgnored [Redis, Postgres],
    /// A release that is sent again after its reply was lost is told that there was nothing to release.
    RetriedReleaseIsLost [Redis, Postgres],
    /// A waiter whose own lease has ended keeps its place, and is granted what those behind it wait for.
    PlaceOutlivesLease [Redis, PostgresSteps],
}
