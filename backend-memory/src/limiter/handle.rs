//! One caller's handle of a limiter.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::clock::{self, Late, micros, timeout};
use stanchion_core::engine::Agreed;
use stanchion_core::limiter::{Bucket, ExactQuota, MAX};
use stanchion_core::observe::metering::Meter;
use stanchion_core::{
    Decision, Error, Kind, Limiter, LimiterOptions, Name, Quota, Reservation, Result, Ticket,
};

use super::LimiterClock;
use super::entry::LimiterEntry;
use crate::clock::Moment;
use crate::session::Session;

/// Maximum time between two looks whether a bucket is full.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// A limiter in this process.
#[derive(Debug)]
pub(crate) struct MemoryLimiter {
    handle: Arc<LimiterHandle>,
}

/// The state shared by a limiter and its reservations.
pub(super) struct LimiterHandle {
    name: Name,
    session: Arc<Session>,
    entry: Arc<LimiterEntry>,
    clock: LimiterClock,
    quota: Agreed<ExactQuota>,
    meter: Meter,
}

impl LimiterHandle {
    pub(super) fn clock(&self) -> &LimiterClock {
        &self.clock
    }

    /// Gives back the part of a reservation that no later reservation has used (L7).
    pub(super) fn refund(&self, ticket: Ticket) -> u64 {
        let cancel = |bucket: &mut Bucket, at: Moment| bucket.cancel(at.micros, ticket.as_u128());
        self.entry.change_stored(self.clock(), cancel).unwrap_or(0)
    }

    /// Runs an operation of that cost on the bucket, unless the store object was closed.
    #[inline]
    fn with<R>(&self, cost: u64, operation: impl FnOnce(&mut Bucket, Moment) -> Result<R>) -> Result<R> {
        self.session.check_open()?;
        if !self.quota.follows() {
            self.quota.value().check_cost(cost)?;
        }
        self.entry.change(self.quota.value(), self.clock(), |bucket, at| {
            if !self.quota.is_compared() {
                self.settle(bucket, at)?;
            }
            operation(bucket, at)
        })
    }

    /// Asks without taking: compares and stores nothing (C20).
    #[cold]
    fn look<R>(&self, look: impl FnOnce(&Bucket, Moment) -> R) -> Result<R> {
        self.session.check_open()?;
        Ok(self.entry.look(self.quota.value(), self.clock(), look))
    }

    /// Compares the quota with the stored one at the first operation (C20).
    #[cold]
    fn settle(&self, bucket: &mut Bucket, at: Moment) -> Result<()> {
        let mismatch = |stored| Error::mismatch("quota", self.quota.value(), stored);
        let quota = self.quota.settle(Some(*bucket.quota())).map_err(mismatch)?;
        if quota != *bucket.quota() {
            bucket.set_quota(at.micros, quota);
        }
        self.quota.compared();
        Ok(())
    }
}

impl MemoryLimiter {
    /// Opens a limiter with checked options.
    pub(crate) fn open(session: &Arc<Session>, name: Name, options: &LimiterOptions) -> Result<Self> {
        let quota = Agreed::new(options.quota.validate()?, options.on_mismatch);
        let clock = session.state.limiter_clock.clone();
        let entry = session.state.open_limiter(&name, clock.read());
        let meter = Meter::new(crate::STORE, Kind::Limiter, &name);
        let session = Arc::clone(session);
        Ok(Self { handle: Arc::new(LimiterHandle { name, session, entry, clock, quota, meter }) })
    }

    fn context(&self, operation: &'static str) -> impl FnOnce(Error) -> Error {
        move |error| error.context(operation, crate::STORE, self.handle.name.as_str())
    }

    // Inlined, so that the answer is built where the caller's future keeps it. Reading it back at
    // once, after it was written in other widths, would stall for some of the eighty nanoseconds
    // that a decision takes.
    #[inline(always)]
    fn take(&self, operation: &'static str, cost: u64) -> Result<Decision> {
        let taken = match cost {
            0 => self.handle.look(|bucket, at| bucket.peek(at.micros)),
            cost => self.handle.with(cost, |bucket, at| bucket.take(at.micros, cost)),
        };
        match taken {
            Ok(verdict) => {
                let decision = Decision::from(verdict);
                if cost > 0 {
                    self.handle.meter.decided(&decision);
                }
                Ok(decision)
            }
            Err(error) => Err(error).map_err(self.context(operation)),
        }
    }

    fn counted<T>(
        &self,
        operation: &'static str,
        placed: Result<T>,
        is_granted: impl Fn(&T) -> bool,
    ) -> Result<T> {
        let ended = |placed: &T| self.handle.meter.ended(operation, is_granted(placed));
        placed.inspect(ended).map_err(self.context(operation))
    }

    fn place(&self, cost: u64, max_wait: u64) -> Result<Option<Reservation>> {
        let ticket = Ticket::random_in_process();
        let reserve = |bucket: &mut Bucket, at: Moment| {
            let reserved = bucket.reserve(at.micros, ticket.as_u128(), cost, max_wait)?;
            Ok(reserved.map(|reserved| self.handle.clock().after(at, reserved.wait)))
        };
        let reserved = match cost {
            0 => self.handle.look(|bucket, at| reserve(&mut bucket.clone(), at))?,
            cost => self.handle.with(cost, reserve),
        }?;
        let backend = || Arc::clone(&self.handle);
        Ok(reserved.map(|ready_at| Reservation::new(backend(), ticket, cost, ready_at)))
    }

    async fn wait_without_limit(&self, operation: &'static str, cost: u64) -> Result<()> {
        let waited = self.wait_counted(operation, cost, MAX).await?;
        if waited { Ok(()) } else { Err(Error::too_many_reserved()).map_err(self.context(operation)) }
    }

    async fn wait_counted(&self, operation: &'static str, cost: u64, max_wait: u64) -> Result<bool> {
        let began = clock::now();
        let waited = self.wait_at_most(cost, max_wait).await;
        if let Ok(true) = waited {
            self.handle.meter.waited(operation, clock::now().saturating_duration_since(began));
        }
        self.counted(operation, waited, |waited| *waited)
    }

    /// Makes one reservation and sleeps once (L6); closing the store object interrupts the sleep.
    async fn wait_at_most(&self, cost: u64, max_wait: u64) -> Result<bool> {
        let Some(reservation) = self.place(cost, max_wait)? else {
            return Ok(false);
        };
        if reservation.is_due() {
            reservation.wait().await;
            return Ok(true);
        }
        let session = &self.handle.session;
        let mut closing = pin!(session.closing.notified());
        closing.as_mut().enable();
        session.check_open()?;
        let mut waiting = pin!(reservation.wait());
        poll_fn(|cx| {
            if closing.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(Error::closed()));
            }
            waiting.as_mut().poll(cx).map(|()| Ok(true))
        })
        .await
    }
}

#[async_trait]
impl Limiter for MemoryLimiter {
    fn name(&self) -> &str {
        self.handle.name.as_str()
    }

    async fn allow(&self) -> Result<Decision> {
        self.take("allow", 1)
    }

    async fn allow_n(&self, cost: u64) -> Result<Decision> {
        self.take("allow_n", cost)
    }

    async fn reserve(&self, max_wait: Duration) -> Result<Option<Reservation>> {
        self.counted("reserve", self.place(1, micros(max_wait)), Option::is_some)
    }

    async fn reserve_n(&self, cost: u64, max_wait: Duration) -> Result<Option<Reservation>> {
        self.counted("reserve_n", self.place(cost, micros(max_wait)), Option::is_some)
    }

    async fn wait(&self) -> Result<()> {
        self.wait_without_limit("wait", 1).await
    }

    async fn wait_n(&self, cost: u64) -> Result<()> {
        self.wait_without_limit("wait_n", cost).await
    }

    async fn wait_for(&self, timeout: Duration) -> Result<bool> {
        self.wait_counted("wait_for", 1, micros(timeout)).await
    }

    async fn wait_n_for(&self, cost: u64, timeout: Duration) -> Result<bool> {
        self.wait_counted("wait_n_for", cost, micros(timeout)).await
    }

    async fn peek(&self) -> Result<Decision> {
        self.take("peek", 0)
    }

    async fn until_full(&self) -> Result<()> {
        let clock = self.handle.clock();
        loop {
            let looked = self.handle.look(|bucket, at| (at, bucket.peek(at.micros).reset_after));
            let (at, left) = looked.map_err(self.context("until_full"))?;
            if left == 0 {
                return Ok(());
            }
            let full = clock.sleep_until(clock.after(at, left));
            // It may be filled before.
            let (Ok(()) | Err(Late)) = timeout(LOOK_INTERVAL, full).await;
        }
    }

    async fn quota(&self) -> Result<ExactQuota> {
        self.handle.look(|bucket, _| *bucket.quota()).map_err(self.context("quota"))
    }

    async fn set_quota(&self, quota: Quota) -> Result<()> {
        let set = quota.validate().and_then(|quota| {
            let handle = &self.handle;
            handle.session.check_open()?;
            handle.entry.change(quota, handle.clock(), |bucket, at| {
                bucket.set_quota(at.micros, quota);
                Ok(())
            })?;
            handle.quota.compared();
            Ok(())
        });
        set.map_err(self.context("set_quota"))
    }

    async fn reset(&self) -> Result<()> {
        let handle = &self.handle;
        handle.session.check_open().map_err(self.context("reset"))?;
        handle.entry.change_stored(handle.clock(), |bucket, at| bucket.reset(at.micros));
        Ok(())
    }
}

impl fmt::Debug for LimiterHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, session, quota, .. } = self;
        let mut shown = f.debug_struct("LimiterHandle");
        shown.field("name", name).field("session", session).field("quota", quota).finish_non_exhaustive()
    }
}

impl Drop for LimiterHandle {
    fn drop(&mut self) {
        self.session.state.limiters.leave(&self.name, self.clock().read());
    }
}
