//! The options of a limiter.

use std::num::NonZeroU32;

use crate::limiter::Quota;
use crate::{OnMismatch, Result};

/// The policy for the time while the store is away ([L10]).
///
/// [L10]: crate::contract#l10
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutagePolicy {
    /// Calls return the error.
    #[default]
    FailClosed,
    /// Calls are allowed: at once while the store is known to be away, otherwise when the request
    /// has failed.
    FailOpen,
    /// A bucket of this process with the `n`-th part of the rate and of the burst, starting empty.
    /// For a cost of more than its burst the policy is [`FailClosed`](Self::FailClosed). It is kept
    /// across outages, for 16,384 names without a handle at most: beyond that the longest unused
    /// begin empty again.
    LocalShare(NonZeroU32),
}

/// Options of a limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimiterOptions {
    /// Rate and burst.
    pub quota: Quota,
    /// Reaction if the store's quota differs.
    pub on_mismatch: OnMismatch,
    /// The policy for the time while the store is away.
    pub outage: OutagePolicy,
    /// Whether a refusal is remembered in this process while it holds.
    pub refusal_cache: bool,
}

impl LimiterOptions {
    /// Options of a limiter with that quota.
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        Self {
            quota,
            on_mismatch: OnMismatch::default(),
            outage: OutagePolicy::default(),
            refusal_cache: true,
        }
    }

    /// Sets the reaction if the store's quota differs ([C20]).
    ///
    /// [C20]: crate::contract#c20
    #[must_use]
    pub fn on_mismatch(mut self, on_mismatch: OnMismatch) -> Self {
        self.on_mismatch = on_mismatch;
        self
    }

    /// The policy for the time while the store is away ([L10]).
    ///
    /// [L10]: crate::contract#l10
    #[must_use]
    pub fn outage(mut self, outage: OutagePolicy) -> Self {
        self.outage = outage;
        self
    }

    /// Sets whether a refusal is remembered in this process while it holds, for at most 100 ms
    /// (default: yes), so that another call for the same cost needs no request. A reset, refund or
    /// new quota of another process takes effect within that time, one of this process at once. It
    /// has no effect on a store in this process.
    #[must_use]
    pub fn refusal_cache(mut self, refusal_cache: bool) -> Self {
        self.refusal_cache = refusal_cache;
        self
    }

    /// Checks the quota ([L11]).
    ///
    /// # Errors
    /// `InvalidArgument` naming the bound and the nearest quota that is exact.
    ///
    /// [L11]: crate::contract#l11
    pub fn check(&self) -> Result<()> {
        self.quota.validate().map(drop)
    }
}
