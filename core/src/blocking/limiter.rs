//! The limiter of threads.

use std::time::{Duration, Instant};

use super::Object;
use super::waiting::wait;
use crate::limiter::ExactQuota;
use crate::{Decision, Quota, Result, Ticket};

/// A named rate limiter, as [`stanchion::Limiter`](crate::Limiter), for threads.
pub type Limiter = Object<dyn crate::Limiter>;

impl Limiter {
    /// Takes 1 token if it is there.
    ///
    /// # Errors
    /// As [`stanchion::Limiter::allow`](crate::Limiter::allow).
    pub fn allow(&self) -> Result<Decision> {
        self.blocked("allow", self.0.allow())
    }

    /// Takes `cost` tokens if they are there.
    ///
    /// # Errors
    /// As [`stanchion::Limiter::allow_n`](crate::Limiter::allow_n).
    pub fn allow_n(&self, cost: u64) -> Result<Decision> {
        self.blocked("allow_n", self.0.allow_n(cost))
    }

    /// Reserves 1 token that will be there within `max_wait`; `None` if it will not.
    ///
    /// # Errors
    /// As [`stanchion::Limiter::reserve`](crate::Limiter::reserve).
    pub fn reserve(&self, max_wait: Duration) -> Result<Option<Reservation>> {
        self.blocked("reserve", self.0.reserve(max_wait)).map(|reserved| reserved.map(Reservation::from))
    }

    /// Reserves `cost` tokens that will be there within `max_wait`; `None` if they will not.
    ///
    /// # Errors
    /// As [`stanchion::Limiter::reserve_n`](crate::Limiter::reserve_n).
    pub fn reserve_n(&self, cost: u64, max_wait: Duration) -> Result<Option<Reservation>> {
        self.blocked("reserve_n", self.0.reserve_n(cost, max_wait))
            .map(|reserved| reserved.map(Reservation::from))
    }

    /// Waits for 1 token.
    ///
    /// # Errors
    /// As [`stanchion::Limiter::wait`](crate::Limiter::wait).
    pub fn wait(&self) -> Result<()> {
        self.blocked("wait", self.0.wait())
    }

    /// Waits for `cost` tokens.
    ///
    /// # Errors
    /// As [`stanchion::Limiter::wait_n`](crate::Limiter::wait_n).
    pub fn wait_n(&self, cost: u64) -> Result<()> {
        self.blocked("wait_n", self.0.wait_n(cost))
    }

    /// Waits for 1 token, at most `timeout`; `false` if it will not be there in time.
    ///
    /// # Errors
    /// As [`stanchion::Limiter::wait_for`](crate::Limiter::wait_for).
    pub fn wait_for(&self, timeout: Duration) -> Result<bool> {
        self.blocked("wait_for", self.0.wait_for(timeout))
    }

    /// Waits for `cost` tokens, at most `timeout`; `false` if they will not be there in time.
    ///
    /// # Errors
    /// As [`stanchion::Limiter::wait_n_for`](crate::Limiter::wait_n_for).
    pub fn wait_n_for(&self, cost: u64, timeout: Duration) -> Result<bool> {
        self.blocked("wait_n_for", self.0.wait_n_for(cost, timeout))
    }

    /// Returns the state, without taking tokens.
    ///
    /// # Errors
    /// As [`stanchion::Limiter::peek`](crate::Limiter::peek).
    pub fn peek(&self) -> Result<Decision> {
        self.blocked("peek", self.0.peek())
    }

    /// Waits until the bucket is full.
    ///
    /// # Errors
    /// As [`stanchion::Limiter::until_full`](crate::Limiter::until_full).
    pub fn until_full(&self) -> Result<()> {
        self.blocked("until_full", self.0.until_full())
    }

    /// Returns the quota in force.
    ///
    /// # Errors
    /// As [`stanchion::Limiter::quota`](crate::Limiter::quota).
    pub fn quota(&self) -> Result<ExactQuota> {
        self.blocked("quota", self.0.quota())
    }

    /// Changes the quota for all processes.
    ///
    /// # Errors
    /// As [`stanchion::Limiter::set_quota`](crate::Limiter::set_quota).
    pub fn set_quota(&self, quota: Quota) -> Result<()> {
        self.blocked("set_quota", self.0.set_quota(quota))
    }

    /// Fills the bucket.
    ///
    /// # Errors
    /// As [`stanchion::Limiter::reset`](crate::Limiter::reset).
    pub fn reset(&self) -> Result<()> {
        self.blocked("reset", self.0.reset())
    }
}

/// Tokens of a limiter, reserved for a time in the future, as
/// [`stanchion::Reservation`](crate::Reservation), for threads.
///
/// # Drop
/// Dropped before it is ready, the reservation is cancelled.
#[derive(Debug)]
#[must_use = "a reservation dropped before its time is cancelled"]
pub struct Reservation(crate::Reservation);

impl Reservation {
    /// Returns the ticket of this reservation.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.0.ticket()
    }

    /// Returns the cost, in tokens.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.0.cost()
    }

    /// Returns the local monotonic time from which on the caller may act.
    #[must_use]
    pub fn ready_at(&self) -> Instant {
        self.0.ready_at()
    }

    /// Returns whether the reservation is ready, without I/O.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.0.is_due()
    }

    /// Waits until the reservation is ready.
    ///
    /// # Errors
    /// `Unsupported` inside of a polled task; then the reservation is cancelled.
    pub fn wait(self) -> Result<()> {
        wait(async {
            self.0.wait().await;
            Ok(())
        })
    }

    /// Cancels the reservation and returns the refund, in tokens; 0 once it is ready.
    ///
    /// # Errors
    /// As [`stanchion::Reservation::cancel`](crate::Reservation::cancel); `Unsupported` inside of a
    /// polled task, where the cancel is queued.
    pub fn cancel(self) -> Result<u64> {
        wait(self.0.cancel())
    }

    /// Returns the same reservation for tasks.
    pub fn into_async(self) -> crate::Reservation {
        self.0
    }
}

impl From<crate::Reservation> for Reservation {
    fn from(reservation: crate::Reservation) -> Self {
        Self(reservation)
    }
}
