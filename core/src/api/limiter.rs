//! The rate limiter.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::clock::sleep;
use crate::limiter::{ExactQuota, Quota};
use crate::{Decision, Reservation, Result};

/// Maximum time between two looks whether a bucket is full: an operator may reset the limiter, and
/// a store lose it.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// A named rate limiter: a token bucket, computed exactly, by the store's clock.
///
/// # Guarantees
/// In every window `[a, b]` of store time the admitted cost is at most `burst + rate·(b − a)`, in
/// exact integer arithmetic ([L1]); under saturating demand at least 99.9 % of it is admitted
/// ([L2]); the same calls at the same times give the same decisions on every store ([L3]).
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> stanchion::Result<()> {
/// use std::time::Duration;
///
/// use stanchion::{LimiterOptions, Quota};
///
/// let store = stanchion::connect("memory:").await?;
/// let calls = store.limiter("partner", LimiterOptions::new(Quota::per_minute(50).burst(10)))?;
/// let decision = calls.allow().await?;
/// assert!(decision.allowed && decision.remaining == 9);
/// assert!(!calls.wait_n_for(10, Duration::from_millis(1)).await?, "it would take longer");
/// # Ok(())
/// # }
/// ```
///
/// [L1]: crate::contract#l1
/// [L2]: crate::contract#l2
/// [L3]: crate::contract#l3
#[async_trait]
pub trait Limiter: Debug + Send + Sync {
    /// Returns the name.
    fn name(&self) -> &str;

    /// Takes 1 token if it is there.
    ///
    /// # Errors
    /// As [`allow_n`](Self::allow_n).
    ///
    /// # Cancel safety
    /// As [`allow_n`](Self::allow_n).
    async fn allow(&self) -> Result<Decision> {
        self.allow_n(1).await
    }

    /// Takes `cost` tokens if they are there, without waiting; a cost of 0 takes none ([L9]), and
    /// is as [`peek`](Self::peek).
    ///
    /// # Errors
    /// `InvalidArgument` if the cost is more than the burst: ask for less; `ConfigMismatch` if the
    /// store's quota differs and the options refuse that: agree on one, or choose another
    /// `on_mismatch`; `Unavailable` or `Unknown` if the store does not answer and the outage policy
    /// is `FailClosed`, or has no share left: after `Unknown` the cost may have been charged.
    /// `Unauthorized`, `UnsafeStore`, `Unsupported` and `Closed` as of
    /// [`Mutex::lock`](crate::Mutex::lock), where they are explained.
    ///
    /// # Cancel safety
    /// A dropped call may have taken the tokens.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use stanchion::{LimiterOptions, Quota};
    ///
    /// let calls = store.limiter("partner", LimiterOptions::new(Quota::per_second(50).burst(10)))?;
    /// assert!(calls.allow_n(10).await?.allowed, "the whole burst");
    /// let refused = calls.allow_n(10).await?;
    /// assert!(!refused.allowed && refused.retry_after.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [L9]: crate::contract#l9
    async fn allow_n(&self, cost: u64) -> Result<Decision>;

    /// Reserves 1 token that will be there within `max_wait`; `None`, at once and without cost, if
    /// it will not ([L6]).
    ///
    /// # Errors
    /// As [`reserve_n`](Self::reserve_n).
    ///
    /// # Cancel safety
    /// As [`reserve_n`](Self::reserve_n).
    ///
    /// [L6]: crate::contract#l6
    async fn reserve(&self, max_wait: Duration) -> Result<Option<Reservation>> {
        self.reserve_n(1, max_wait).await
    }

    /// Reserves `cost` tokens that will be there within `max_wait`; `None`, at once and without
    /// cost, if they will not ([L6]).
    ///
    /// # Errors
    /// As [`allow_n`](Self::allow_n).
    ///
    /// # Cancel safety
    /// The reservation of a dropped call is cancelled ([L7]).
    ///
    /// [L6]: crate::contract#l6
    /// [L7]: crate::contract#l7
    async fn reserve_n(&self, cost: u64, max_wait: Duration) -> Result<Option<Reservation>>;

    /// Waits for 1 token.
    ///
    /// # Errors
    /// As [`wait_n`](Self::wait_n).
    ///
    /// # Cancel safety
    /// As [`wait_n`](Self::wait_n).
    async fn wait(&self) -> Result<()> {
        self.wait_n(1).await
    }

    /// Waits for `cost` tokens: one reservation and one sleep.
    ///
    /// # Errors
    /// As [`allow_n`](Self::allow_n).
    ///
    /// # Cancel safety
    /// A dropped call cancels its reservation ([L7]).
    ///
    /// [L7]: crate::contract#l7
    async fn wait_n(&self, cost: u64) -> Result<()>;

    /// Waits for 1 token, at most `timeout`; `false`, at once and without cost, if it will not be
    /// there in time.
    ///
    /// # Errors
    /// As [`wait_n_for`](Self::wait_n_for).
    ///
    /// # Cancel safety
    /// As [`wait_n`](Self::wait_n).
    async fn wait_for(&self, timeout: Duration) -> Result<bool> {
        self.wait_n_for(1, timeout).await
    }

    /// Waits for `cost` tokens, at most `timeout`; `false`, at once and without cost, if they will
    /// not be there in time.
    ///
    /// # Errors
    /// As [`allow_n`](Self::allow_n).
    ///
    /// # Cancel safety
    /// As [`wait_n`](Self::wait_n).
    async fn wait_n_for(&self, cost: u64, timeout: Duration) -> Result<bool>;

    /// Returns the state, without taking tokens. Neither compares nor stores the quota ([C20]): the
    /// answer is that of the stored quota or, if none is stored, of a full bucket with this
    /// handle's.
    ///
    /// # Errors
    /// As [`allow_n`](Self::allow_n), without `ConfigMismatch`.
    ///
    /// [C20]: crate::contract#c20
    async fn peek(&self) -> Result<Decision> {
        self.allow_n(0).await
    }

    /// Waits until the bucket is full, by the clock of its limiter, which on the memory store can
    /// be one that a test moves. Takes nothing: another caller may take tokens right after. A
    /// bucket that is filled by [`reset`](Self::reset), or has another quota meanwhile, is noticed
    /// after a minute.
    ///
    /// # Errors
    /// As [`peek`](Self::peek).
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use stanchion::{LimiterOptions, Quota};
    ///
    /// let limiter = store.limiter("partner", LimiterOptions::new(Quota::per_second(1_000)))?;
    /// limiter.allow_n(5).await?;
    /// limiter.until_full().await?;
    /// assert_eq!(limiter.peek().await?.remaining, 1_000);
    /// # Ok(())
    /// # }
    /// ```
    async fn until_full(&self) -> Result<()> {
        loop {
            match self.peek().await?.reset_after {
                Duration::ZERO => return Ok(()),
                left => sleep(left.min(LOOK_INTERVAL)).await,
            }
        }
    }

    /// Returns the quota in force, in lowest terms: the stored one or, if none is stored, this
    /// handle's. Neither compares nor stores it ([C20]). No outage policy answers.
    ///
    /// # Errors
    /// As [`peek`](Self::peek).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use stanchion::{LimiterOptions, Quota};
    ///
    /// let fifty = Quota::per_second(50).burst(10);
    /// assert!(store.limiter("partner", LimiterOptions::new(fifty))?.allow().await?.allowed);
    /// let other = store.limiter("partner", LimiterOptions::new(Quota::per_second(20)))?;
    /// assert_eq!(other.quota().await?, fifty.validate()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [C20]: crate::contract#c20
    async fn quota(&self) -> Result<ExactQuota>;

    /// Changes the quota for all processes. The tokens in the bucket stay, up to the new burst;
    /// reservations keep their times.
    ///
    /// # Errors
    /// `InvalidArgument` if the quota cannot be exact ([L11]); as [`allow_n`](Self::allow_n).
    ///
    /// [L11]: crate::contract#l11
    async fn set_quota(&self, quota: Quota) -> Result<()>;

    /// Fills the bucket and forgets all reservations.
    ///
    /// # Errors
    /// As [`allow_n`](Self::allow_n).
    async fn reset(&self) -> Result<()>;
}
