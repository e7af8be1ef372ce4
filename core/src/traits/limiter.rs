//! The rate limiter.

use std::fmt::Debug;
use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;

use crate::limiter::Quota;
use crate::{OnMismatch, Reservation, Result};

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecidedBy {
    /// The store, by its clock.
    Store,
    /// A refusal of the store's that still holds, remembered here.
    LocalCache,
    /// The outage policy: the store was away (L10).
    OutagePolicy,
}

/// The answer of a limiter (L8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// Whether the cost was taken.
    pub allowed: bool,
    /// The burst: the most that can ever be taken at once.
    pub limit: u64,
    /// What could be taken at once after this decision.
    pub remaining: u64,
    /// After this time the same cost is admitted, if nobody else takes before; `None` when allowed.
    pub retry_after: Option<Duration>,
    /// After this time the bucket is full, if nobody takes before.
    pub reset_after: Duration,
    /// Who decided.
    pub decided_by: DecidedBy,
}

impl Decision {
    /// A decision of the store's.
    #[must_use]
    pub fn new(limit: u64, remaining: u64, retry_after: Option<Duration>, reset_after: Duration) -> Self {
        let allowed = retry_after.is_none();
        Self { allowed, limit, remaining, retry_after, reset_after, decided_by: DecidedBy::Store }
    }
}

/// What decides when the store is away (L10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutagePolicy {
    /// An error.
    #[default]
    FailClosed,
    /// Allowed.
    FailOpen,
    /// A bucket of this process with the `n`-th part of the rate and of the burst, starting empty. A cost over its
    /// burst is for the store alone, as with [`FailClosed`](Self::FailClosed).
    LocalShare(NonZeroU32),
}

/// Options of a limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimiterOptions {
    /// Rate and burst.
    pub quota: Quota,
    /// What to do where the store's quota differs.
    pub on_mismatch: OnMismatch,
    /// What decides when the store is away.
    pub outage: OutagePolicy,
    /// Whether a refusal is remembered in this process while it holds.
    pub refusal_cache: bool,
}

impl LimiterOptions {
    /// A limiter of that quota.
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        Self {
            quota,
            on_mismatch: OnMismatch::default(),
            outage: OutagePolicy::default(),
            refusal_cache: true,
        }
    }

    /// What to do where the store's quota differs (C20).
    #[must_use]
    pub fn on_mismatch(mut self, on_mismatch: OnMismatch) -> Self {
        self.on_mismatch = on_mismatch;
        self
    }

    /// What decides when the store is away (L10).
    #[must_use]
    pub fn outage(mut self, outage: OutagePolicy) -> Self {
        self.outage = outage;
        self
    }

    /// Whether a refusal is remembered in this process while it holds, at most 100 ms (default: yes), so that asking
    /// again for the same cost needs no request. Another process's reset, refund or new quota takes effect within that
    /// time; this process's does at once. A store in this process has nothing to remember.
    #[must_use]
    pub fn refusal_cache(mut self, refusal_cache: bool) -> Self {
        self.refusal_cache = refusal_cache;
        self
    }

    /// Checks the quota (L11).
    ///
    /// # Errors
    /// `InvalidArgument` naming the bound and the nearest quota that is exact.
    pub fn check(&self) -> Result<()> {
        self.quota.validate().map(drop)
    }
}

/// A named rate limiter: a token bucket, decided exactly and by the store's clock.
///
/// # Guarantees
/// In every window `[a, b]` of store time the admitted cost is at most `burst + rate·(b − a)`, in exact integer
/// arithmetic (L1); under saturating demand at least 99.9 % of it is admitted (L2); the same calls at the same times
/// give the same decisions on every store (L3).
#[async_trait]
pub trait Limiter: Debug + Send + Sync {
    /// The name.
    fn name(&self) -> &str;

    /// Takes 1 if it is there.
    ///
    /// # Errors
    /// As [`allow_n`](Self::allow_n).
    ///
    /// # Cancel safety
    /// As [`allow_n`](Self::allow_n).
    async fn allow(&self) -> Result<Decision> {
        self.allow_n(1).await
    }

    /// Takes `cost` if it is there, at once; a cost of 0 asks without taking (L9).
    ///
    /// # Errors
    /// `InvalidArgument` if the cost is over the burst; `ConfigMismatch`; `Unavailable` or `Unknown` where the outage
    /// policy is to fail.
    ///
    /// # Cancel safety
    /// A dropped call may have taken the cost.
    async fn allow_n(&self, cost: u64) -> Result<Decision>;

    /// Takes a place in the future for `cost`, at most `max_wait` from now; `None`, at once and without cost, if there
    /// is none that soon (L6).
    ///
    /// # Errors
    /// As [`allow_n`](Self::allow_n).
    ///
    /// # Cancel safety
    /// A dropped call that had reserved is cancelled (L7).
    async fn reserve_n(&self, cost: u64, max_wait: Duration) -> Result<Option<Reservation>>;

    /// Waits for 1.
    ///
    /// # Errors
    /// As [`wait_n`](Self::wait_n).
    ///
    /// # Cancel safety
    /// As [`wait_n`](Self::wait_n).
    async fn wait(&self) -> Result<()> {
        self.wait_n(1).await
    }

    /// Waits for `cost`: one reservation and one sleep.
    ///
    /// # Errors
    /// As [`allow_n`](Self::allow_n).
    ///
    /// # Cancel safety
    /// A dropped call cancels its reservation (L7).
    async fn wait_n(&self, cost: u64) -> Result<()>;

    /// Waits for `cost` at most this long; `false`, at once and without cost, if that cannot be.
    ///
    /// # Errors
    /// As [`allow_n`](Self::allow_n).
    ///
    /// # Cancel safety
    /// As [`wait_n`](Self::wait_n).
    async fn wait_n_for(&self, cost: u64, limit: Duration) -> Result<bool>;

    /// The state, without taking.
    ///
    /// # Errors
    /// As [`allow_n`](Self::allow_n).
    async fn peek(&self) -> Result<Decision> {
        self.allow_n(0).await
    }

    /// Changes the quota for everybody. What is in the bucket stays, up to the new burst; reservations keep their
    /// times.
    ///
    /// # Errors
    /// `InvalidArgument` if the quota cannot be exact (L11); as [`allow_n`](Self::allow_n).
    async fn set_quota(&self, quota: Quota) -> Result<()>;

    /// Fills the bucket and forgets all reservations.
    ///
    /// # Errors
    /// As [`allow_n`](Self::allow_n).
    async fn reset(&self) -> Result<()>;
}
