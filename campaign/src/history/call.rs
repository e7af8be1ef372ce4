//! The calls that a worker can make, with their parameters.

use stanchion_core::{Quota, Ticket};

/// A call of one of the four traits. Durations in µs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// `lock`, `acquire_many` and their `try_` forms.
    Acquire {
        /// The permits asked for; 1 for a mutex.
        weight: u32,
        /// The limit that the semaphore was made with; `None` for a mutex, or for a handle that adopts the store's.
        permits: Option<u32>,
        /// The lease, or that of all holds of the process where the store has one for all; `None` if there is none.
        ttl: Option<u64>,
        /// Whether the call waits in the queue: not for a `try_lock`.
        waits: bool,
    },
    /// `attach` of a mutex, a semaphore or a wait group.
    Attach {
        /// The ticket of the detached hold.
        ticket: Ticket,
        /// The lease it goes on with.
        ttl: Option<u64>,
    },
    /// `resize` of a semaphore, or a handle that replaces the limit by its own.
    Resize {
        /// The new limit.
        permits: u32,
    },
    /// `force_unlock`, or `force_release` of one ticket.
    Force {
        /// The ticket; `None` for whoever holds it.
        ticket: Option<Ticket>,
    },
    /// `add` of one member. `add_many(n)` is `n` operations that begin and end together.
    Add {
        /// The limit that the group was made with.
        limit: Option<u32>,
        /// The lease of the member.
        ttl: Option<u64>,
    },
    /// `done` by ticket, of a member that may be another process's.
    Done {
        /// Whose.
        ticket: Ticket,
    },
    /// `wait` of a wait group.
    Wait,
    /// `count` of a wait group.
    Count,
    /// `allow_n`.
    Take {
        /// The cost.
        cost: u64,
        /// The quota that the limiter was made with.
        quota: Quota,
    },
    /// `wait_n`, or `reserve_n` together with the sleep until its time. Allowed when that time has come.
    Reserve {
        /// The cost.
        cost: u64,
        /// The quota that the limiter was made with.
        quota: Quota,
    },
    /// `set_quota`, or a handle that replaces the quota by its own.
    SetQuota {
        /// The new one.
        quota: Quota,
    },
    /// `reset` of a limiter.
    Reset,
}

impl Call {
    /// The lease that the call asks for, in µs.
    #[must_use]
    pub fn ttl(&self) -> Option<u64> {
        match *self {
            Self::Acquire { ttl, .. } | Self::Attach { ttl, .. } | Self::Add { ttl, .. } => ttl,
            _ => None,
        }
    }
}
