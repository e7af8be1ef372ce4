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
        /// The limit that the semaphore was made with; `None` for a mutex, or for a handle that
        /// adopts the store's.
        permits: Option<u32>,
        /// The lease; the lease of the whole process where the store has one lease for all its
        /// holds; `None` without a lease.
        ttl: Option<u64>,
        /// Whether the call waits in the queue; `false` for a `try_lock`.
        waits: bool,
    },
    /// `attach` of a mutex, a semaphore or a wait group.
    Attach {
        /// The ticket of the detached hold.
        ticket: Ticket,
        /// The lease of the attached hold.
        ttl: Option<u64>,
    },
    /// `resize` of a semaphore, or the first call of a handle that replaces the stored limit.
    Resize {
        /// The new limit.
        permits: u32,
    },
    /// `force_unlock`, or `force_release` of one ticket.
    Force {
        /// The ticket; `None` for any holder.
        ticket: Option<Ticket>,
    },
    /// `add` of one member. `add_many(n)` is `n` operations that begin and end together.
    Add {
        /// The limit that the group was made with.
        limit: Option<u32>,
        /// The lease of the member.
        ttl: Option<u64>,
    },
    /// `done` by ticket; the member may belong to another process.
    Done {
        /// The ticket of the member.
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
    /// `wait_n`, or `reserve_n` together with the sleep until its time. It counts as allowed once
    /// that time has come.
    Reserve {
        /// The cost.
        cost: u64,
        /// The quota that the limiter was made with.
        quota: Quota,
    },
    /// `set_quota`, or the first call of a handle that replaces the stored quota.
    SetQuota {
        /// The new quota.
        quota: Quota,
    },
    /// `reset` of a limiter.
    Reset,
}

impl Call {
    /// Returns the lease that the call asks for, in µs.
    #[must_use]
    pub fn ttl(&self) -> Option<u64> {
        match *self {
            Self::Acquire { ttl, .. } | Self::Attach { ttl, .. } | Self::Add { ttl, .. } => ttl,
            _ => None,
        }
    }
}
