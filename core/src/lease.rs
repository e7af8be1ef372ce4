//! Lease times: what a holder may believe and for how long.

use std::time::Duration;

use crate::{Error, Result};

/// The time to live of a hold: 100 ms to 24 h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ttl(Duration);

impl Ttl {
    /// 30 s.
    pub const DEFAULT: Self = Self(Duration::from_secs(30));
    /// The shortest lease, 100 ms.
    pub const MIN: Duration = Duration::from_millis(100);
    /// The longest lease, 24 h.
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

    /// The duration.
    #[must_use]
    pub fn get(self) -> Duration {
        self.0
    }

    /// How long after the sending of the request that granted or renewed a hold its holder may believe in it:
    /// `TTL·0.99 − max(20 ms, TTL/20)`, the deadline `D` of the contract.
    ///
    /// One part in a hundred allows for clocks that run at different speeds, the rest for the way of a reply.
    #[must_use]
    pub fn belief(self) -> Duration {
        (self.0 * 99 / 100).saturating_sub(Duration::from_millis(20).max(self.0 / 20))
    }

    /// The latest moment, from the sending on, at which a grant is still handed out: half of the TTL (C6).
    #[must_use]
    pub fn handout(self) -> Duration {
        self.0 / 2
    }

    /// The mean time between two renewals: a third of the TTL (C13).
    #[must_use]
    pub fn renewal(self) -> Duration {
        self.0 / 3
    }

    /// How long a tombstone refuses what a withdrawn acquisition of this lease may still have under way (C4): the lease,
    /// and 30 s at least. A request can come late by as much as its connection was cut off, which has nothing to do with
    /// how short the lease is.
    pub(crate) fn tombstone(self) -> Self {
        self.max(Self::DEFAULT)
    }
}

impl Default for Ttl {
    fn default() -> Self {
        Self::DEFAULT
    }
}
