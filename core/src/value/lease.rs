//! Lease times.

use std::time::Duration;

use crate::{Error, Result};

/// The time to live of a hold: 100 ms to 24 h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ttl(Duration);

impl Ttl {
    /// Default lease: 30 s.
    pub const DEFAULT: Self = Self(Duration::from_secs(30));
    /// Minimum lease: 100 ms.
    pub const MIN: Duration = Duration::from_millis(100);
    /// Maximum lease: 24 h.
    pub const MAX: Duration = Duration::from_secs(24 * 60 * 60);

    /// Checks a time to live.
    ///
    /// # Errors
    /// `InvalidArgument` outside 100 ms to 24 h.
    pub fn new(ttl: Duration) -> Result<Self> {
        if (Self::MIN..=Self::MAX).contains(&ttl) {
            Ok(Self(ttl))
        } else {
            Err(Error::invalid_argument(format!("a TTL is between 100 ms and 24 h, not {ttl:?}")))
        }
    }

    /// Returns the duration.
    #[must_use]
    pub fn get(self) -> Duration {
        self.0
    }

    /// Returns the time for which a hold is live, counted from the sending of the request that
    /// granted or renewed it: `TTL·0.99 − max(20 ms, TTL/20)`, the deadline `D` of the contract.
    ///
    /// One per cent allows for clocks that run at different speeds, the rest for the transfer of a
    /// reply.
    #[must_use]
    pub fn belief(self) -> Duration {
        (self.0 * 99 / 100).saturating_sub(Duration::from_millis(20).max(self.0 / 20))
    }

    /// Returns the maximum age, from the sending on, at which a grant is still handed out: half of
    /// the TTL ([C6]).
    ///
    /// [C6]: crate::contract#c6
    #[must_use]
    pub fn handout(self) -> Duration {
        self.0 / 2
    }

    /// Returns the maximum time between two renewals: a third of the TTL ([C13]).
    ///
    /// [C13]: crate::contract#c13
    #[must_use]
    pub fn renewal(self) -> Duration {
        self.0 / 3
    }

    /// Returns the time limit of a request for a hold with this lease: `timeout`, at most a third
    /// of the TTL ([C17]).
    ///
    /// [C17]: crate::contract#c17
    #[must_use]
    pub fn request_limit(self, timeout: Duration) -> Duration {
        timeout.min(self.0 / 3)
    }

    /// The longest time for which a tombstone is left.
    const LONGEST_TOMBSTONE: Self = Self(Duration::from_secs(300));

    /// Returns the time for which a tombstone refuses late requests of a withdrawn acquisition with
    /// this lease ([C4]): the lease, but 30 s at least and 5 min at most. A request can be late by
    /// as long as its connection was interrupted, however short the lease is, and no connection
    /// keeps one for longer.
    ///
    /// [C4]: crate::contract#c4
    pub(crate) fn tombstone(self) -> Self {
        self.clamp(Self::DEFAULT, Self::LONGEST_TOMBSTONE)
    }
}

impl From<Ttl> for Duration {
    fn from(ttl: Ttl) -> Self {
        ttl.get()
    }
}

impl Default for Ttl {
    fn default() -> Self {
        Self::DEFAULT
    }
}
