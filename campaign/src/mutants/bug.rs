//! The list of planted bugs.

use std::fmt;

/// The code that bugs are planted into. Each target has a suite of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MutantTarget {
    /// Clients of the memory store.
    Memory,
    /// Clients of the Redis store, and its scripts on their way to the server.
    Redis,
    /// Clients of the Postgres store, and the functions of its schema.
    Postgres,
    /// The functions of the Postgres store's schema, tested below the engine.
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
        /// A mistake that an author of a store may make.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Bug {
            $($(#[$doc])+ $bug,)+
        }

        impl Bug {
            /// All bugs.
            pub const ALL: &'static [Self] = &[$(Self::$bug),+];

            /// Returns the targets that the bug is planted into.
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
    /// The release of a mutex does not check the owner of the hold.
    ReleaseWithoutOwner [Memory],
    /// The deadline counts from the reply instead of the sending of the request, and some replies
    /// are slow.
    DeadlineFromReply [Memory],
    /// A mutex's lease in the store is half as long as requested.
    HalfLease [Memory],
    /// `is_held` returns the last answer of the store, without looking at the clock.
    HeldUntilTold [Memory],
    /// `lost` waits for a message of the store that never comes.
    NeverLost [Memory],
    /// Fencing tokens come from a counter that restarts after a loss of data.
    RestartedTokens [Memory],
    /// A waiter that missed its wake-up polls again only after seconds.
    LostWakeUp [Memory],
    /// Waiters poll without a queue, and the first one to poll after the release gets the lock.
    Barging [Memory],
    /// A dropped `lock` continues in the background, and its hold is never released.
    CancelledAcquireLeaks [Memory],
    /// A time limit is rounded down to whole milliseconds, and zero means no limit.
    ShortLimitIsNone [Memory],
    /// A retry after a lost reply uses a new ticket, so the first hold has no owner.
    NewTicketOnRetry [Memory],
    /// Permits are counted first and taken later, not atomically.
    OverTheLimit [Memory],
    /// A limit that differs from the store's is adopted silently.
    SilentMismatch [Memory],
    /// Names are folded to lower case.
    FoldedNames [Memory],
    /// All namespaces are one.
    OneNamespace [Memory],
    /// A listing takes a prefix for a pattern.
    GlobPrefix [Memory],
    /// A listing ends with its first page.
    ListsFirstPageOnly [Memory],
    /// The state of a used name is kept for ever.
    IdleNamesAreKept [Memory],
    /// A wait group whose record is gone counts as a group at zero.
    AbsentIsZero [Memory],
    /// `done` of an unknown member succeeds.
    UnknownDoneIsFine [Memory],
    /// The rate is rounded to an interval of whole milliseconds.
    RoundedInterval [Memory],
    /// The bucket holds twice the burst of its quota.
    DoubledBurst [Memory],
    /// A dropped reservation is not given back.
    DroppedReservationIsKept [Memory],
    /// A Bloom filter reports an item as new if it did not contain it a moment before the insert,
    /// not atomically.
    LookedUpThenInserted [Memory],
    /// Opening a Bloom filter clears it.
    OpeningClears [Memory],
    /// A lost Bloom filter counts as empty.
    LossIsEmpty [Memory],
    /// The bits in a Bloom filter's bytes are counted from the lowest bit.
    LowestBitFirst [Memory],
    /// Fencing tokens come from a counter in the store, which is lost with the store's data.
    BareCounter [Redis, Postgres],
    /// Fencing tokens come directly from a sequence of the database.
    BareSequence [Postgres],
    /// Whoever has a mutex by its session keeps the place in the queue by which it waited for it.
    PlaceIsKept [Postgres],
    /// A limiter uses each caller's clock.
    ClientsClock [Redis, Postgres],
    /// A retried charge, whose reply was lost, is charged again.
    ChargedAgain [Redis, Postgres, PostgresSteps],
    /// The clock that decides whether a hold has expired is read before the wait for its record,
    /// not after it.
    ClockBeforeLock [PostgresSteps],
    /// A holder believes past its deadline while its store hangs, until the store answers.
    BelievesWhileAsking [Redis, Postgres],
    /// A grant reaches its waiter only after its lease has ended.
    LateGrant [Redis, Postgres],
    /// A retried acquisition of a semaphore, whose reply was lost, is granted a second time on the
    /// same ticket.
    CountedAgain [Redis],
    /// A retried acquisition keeps its old lease instead of a new one.
    RetryKeepsItsLease [Redis, Postgres],
    /// The tombstone of a cancelled acquisition does not prevent the grant of a late copy.
    TombstoneIsIgnored [Redis, Postgres],
    /// A retried release, whose reply was lost, is answered that there was nothing to release.
    RetriedReleaseIsLost [Redis, Postgres],
    /// A waiter whose own lease has ended keeps its place in the queue, and is granted before the
    /// waiters behind it.
    PlaceOutlivesLease [Redis, PostgresSteps],
}
