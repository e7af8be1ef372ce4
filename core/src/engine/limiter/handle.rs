//! A limiter of a networked store, as one caller uses it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::local::Local;
use crate::clock::{micros, now};
use crate::engine::agreed::Agreed;
use crate::engine::shared::EngineHandle;
use crate::limiter::{ExactQuota, MAX};
use crate::observe::metering::Meter;
use crate::spi::{Decide, LimitAsk, Limited, Object, RequestId, Reset, SetQuota, StepsExt};
use crate::{Decision, Error, ErrorKind, Limiter, LimiterOptions, Quota, Reservation, Result};
use async_trait::async_trait;

/// A limiter.
#[derive(Debug)]
pub(crate) struct LimiterHandle {
    handle: Arc<LimiterState>,
}

/// The state that a limiter shares with its reservations.
#[derive(Debug)]
pub(super) struct LimiterState {
    pub(super) engine: Arc<EngineHandle>,
    pub(super) object: Object,
    pub(super) local: Arc<Local>,
    pub(super) options: LimiterOptions,
    pub(super) quota: Agreed<ExactQuota>,
    pub(super) meter: Meter,
}

impl LimiterHandle {
    /// Makes a limiter of checked options.
    pub(crate) fn new(engine: &Arc<EngineHandle>, object: Object, options: LimiterOptions) -> Result<Self> {
        let quota = Agreed::new(options.quota.validate()?, options.on_mismatch);
        let local = engine.shared.limits.locals.open(&object.name);
        let engine = Arc::clone(engine);
        let meter = Meter::new(engine.shared.store(), object.kind, &object.name);
        let state = LimiterState { engine, object, local, options, quota, meter };
        Ok(Self { handle: Arc::new(state) })
    }

    async fn take(&self, operation: &'static str, cost: u64) -> Result<Decision> {
        let decided = self.handle.engine.shared.on(self.handle.decide(cost)).await;
        if cost > 0 {
            decided.iter().for_each(|decision| self.handle.meter.decided(decision));
        }
        decided.map_err(|error| self.handle.context(operation, error))
    }

    /// Makes at most one reservation, by the store or by the outage policy.
    async fn place(
        &self,
        operation: &'static str,
        cost: u64,
        max_wait: Duration,
    ) -> Result<Option<Reservation>> {
        let (handle, max_wait) = (&self.handle, limiter_micros(max_wait));
        let placed = async {
            let end = handle.engine.shared.request_end(None);
            let placing = pin!(handle.place(cost, max_wait, end));
            match handle.unless_away(cost, placing).await {
                Ok((reservation, _)) => Ok(reservation),
                Err(error) => handle.reserve_without(cost, max_wait, error),
            }
        };
        let placed = handle.engine.shared.on(placed).await;
        placed.iter().for_each(|placed| handle.meter.ended(operation, placed.is_some()));
        placed.map_err(|error| handle.context(operation, error))
    }

    async fn wait_without_limit(&self, operation: &'static str, cost: u64) -> Result<()> {
        let waited = self.wait_at_most(operation, cost, None).await?;
        if waited { Ok(()) } else { Err(self.handle.context(operation, Error::too_many_reserved())) }
    }

    /// Makes one reservation and sleeps once (L6); the end of the store object interrupts the
    /// sleep.
    async fn wait_at_most(
        &self,
        operation: &'static str,
        cost: u64,
        timeout: Option<Duration>,
    ) -> Result<bool> {
        let handle = &self.handle;
        let waited = async {
            // Asked before the flag's lock is taken, which a forked child must not do, and after,
            // so that no close is missed.
            handle.engine.shared.check_open()?;
            let mut closing = pin!(handle.engine.shared.limits.closing.notified());
            closing.as_mut().enable();
            handle.engine.shared.check_open()?;
            tokio::select! {
                biased;
                () = closing => Err(Error::closed()),
                waited = handle.wait(cost, timeout) => waited,
            }
        };
        let began = now();
        let waited = handle.engine.shared.on(waited).await;
        for waited in waited.iter().copied() {
            handle.meter.ended(operation, waited);
            if waited {
                handle.meter.waited(operation, began.elapsed());
            }
        }
        waited.map_err(|error| handle.context(operation, error))
    }
}

impl LimiterState {
    pub(super) fn context(&self, operation: &'static str, error: Error) -> Error {
        error.context(operation, self.engine.shared.store(), self.object.name.as_str())
    }

    /// Makes a call, and adds to its error what was called.
    async fn on<T>(&self, operation: &'static str, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.engine.shared.on(call).await.map_err(|error| self.context(operation, error))
    }

    /// Changes the bucket for everybody. Refusals of before, also those under way, are remembered
    /// no longer.
    async fn change(&self, operation: &'static str, step: impl Future<Output = Result<()>>) -> Result<()> {
        self.engine.shared.check_open().map_err(|error| self.context(operation, error))?;
        self.local.forget();
        let changed = self.on(operation, step).await;
        self.local.forget();
        changed
    }

    /// Notes the quota in the answer to a call of that cost.
    pub(super) fn learn(&self, cost: u64, quota: ExactQuota) {
        if cost > 0 { self.quota.learn(quota) } else { self.quota.follow(quota) }
    }

    /// Refuses a cost without a request: one that no quota admits, or that the quota which this
    /// handle requires does not admit.
    pub(super) fn check_cost(&self, cost: u64) -> Result<()> {
        if cost > MAX || !self.quota.follows() { self.quota.value().check_cost(cost) } else { Ok(()) }
    }

    pub(super) fn call(&self, quota: ExactQuota, ask: LimitAsk) -> Decide {
        let (LimitAsk::Take { cost } | LimitAsk::Reserve { cost, .. }) = ask;
        Decide {
            id: RequestId::NONE,
            object: self.object.clone(),
            quota,
            check: self.quota.check(cost > 0),
            ask,
        }
    }

    /// Asks the store for the quota in force; one that is not stored is that of this handle.
    async fn ask_quota(&self) -> Result<ExactQuota> {
        let shared = &self.engine.shared;
        shared.check_open()?;
        let own = self.quota.value();
        let call = self.call(own, LimitAsk::Take { cost: 0 });
        match shared.batcher.ask(call, shared.request_end(None)).await? {
            Limited::Taken { quota, .. } => Ok(quota),
            other => Err(self.refusal(&other, 0, own)),
        }
    }

    async fn decide(&self, cost: u64) -> Result<Decision> {
        let shared = &self.engine.shared;
        shared.check_open()?;
        self.check_cost(cost)?;
        let own = self.quota.value();
        let epoch = match self.options.refusal_cache.then(|| self.local.refused(cost)) {
            Some(Ok(decision)) if self.quota.is_compared() => return Ok(decision),
            Some(Err(epoch)) => Some(epoch),
            _ => None,
        };
        let call = self.call(own, LimitAsk::Take { cost });
        let asked = pin!(shared.batcher.ask_timed(call, shared.request_end(None)));
        let answered = match self.unless_away(cost, asked).await {
            Ok(answered) => answered,
            Err(error) => return self.decide_without(cost, error),
        };
        let Limited::Taken { verdict, quota, settled } = answered.answer else {
            return Err(self.refusal(&answered.answer, cost, own));
        };
        self.learn(cost, quota);
        if let Some(epoch) = epoch
            && settled
            && !verdict.allowed
        {
            self.local.remember(cost, verdict, answered.sent, answered.received, epoch);
        }
        Ok(verdict.into())
    }

    /// Returns the error that an answer other than a decision means; `own` is the quota in the
    /// call.
    pub(super) fn refusal(&self, limited: &Limited, cost: u64, own: ExactQuota) -> Error {
        match limited {
            Limited::Mismatch { stored } => Error::mismatch("quota", own, stored),
            Limited::TooLarge { quota } => {
                self.quota.learn(*quota);
                let unexpected = || Error::invalid_argument("the cost is over the burst in force");
                quota.check_cost(cost).err().unwrap_or_else(unexpected)
            }
            // `close` cancelled it before this request arrived; no other caller knows the ticket.
            Limited::Cancelled => self.engine.shared.check_open().err().unwrap_or_else(Error::lost),
            Limited::Taken { .. } | Limited::Reserved { .. } => {
                Error::new(ErrorKind::Unknown, "the store's answer was to another call")
            }
        }
    }
}

/// Returns the duration in µs, at most [`MAX`].
pub(super) fn limiter_micros(duration: Duration) -> u64 {
    micros(duration).min(MAX)
}

#[async_trait]
impl Limiter for LimiterHandle {
    fn name(&self) -> &str {
        self.handle.object.name.as_str()
    }

    async fn allow(&self) -> Result<Decision> {
        self.take("allow", 1).await
    }

    async fn allow_n(&self, cost: u64) -> Result<Decision> {
        self.take("allow_n", cost).await
    }

    async fn reserve(&self, max_wait: Duration) -> Result<Option<Reservation>> {
        self.place("reserve", 1, max_wait).await
    }

    async fn reserve_n(&self, cost: u64, max_wait: Duration) -> Result<Option<Reservation>> {
        self.place("reserve_n", cost, max_wait).await
    }

    async fn wait(&self) -> Result<()> {
        self.wait_without_limit("wait", 1).await
    }

    async fn wait_n(&self, cost: u64) -> Result<()> {
        self.wait_without_limit("wait_n", cost).await
    }

    async fn wait_for(&self, timeout: Duration) -> Result<bool> {
        self.wait_at_most("wait_for", 1, Some(timeout)).await
    }

    async fn wait_n_for(&self, cost: u64, timeout: Duration) -> Result<bool> {
        self.wait_at_most("wait_n_for", cost, Some(timeout)).await
    }

    async fn peek(&self) -> Result<Decision> {
        self.take("peek", 0).await
    }

    async fn quota(&self) -> Result<ExactQuota> {
        self.handle.on("quota", self.handle.ask_quota()).await
    }

    async fn set_quota(&self, quota: Quota) -> Result<()> {
        let handle = &self.handle;
        let set = async {
            let quota = quota.validate()?;
            let object = handle.object.clone();
            handle.engine.shared.steps.ask(SetQuota { object, quota }).await?;
            handle.quota.learn(quota);
            Ok(())
        };
        handle.change("set_quota", set).await
    }

    async fn reset(&self) -> Result<()> {
        let handle = &self.handle;
        let reset = Reset { object: handle.object.clone() };
        handle.change("reset", handle.engine.shared.steps.ask(reset)).await
    }
}
