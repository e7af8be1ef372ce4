//! A limiter of a networked store, as one caller uses it.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::local::Local;
use crate::clock::{micros, now};
use crate::engine::shared::EngineHandle;
use crate::limiter::{ExactQuota, MAX, Verdict};
use crate::observe::metering::Meter;
use crate::spi::{Decide, LimitAsk, Limited, Object, ParameterCheck, RequestId, Reset, SetQuota, StepsExt};
use crate::{Decision, Error, ErrorKind, Limiter, LimiterOptions, OnMismatch, Quota, Reservation, Result};
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
    known: Mutex<Known>,
    pub(super) meter: Meter,
}

/// The quota in the last answer; the handle follows the store (C20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) quota: ExactQuota,
    compared: bool,
}

impl LimiterHandle {
    /// Makes a limiter of checked options.
    pub(crate) fn new(engine: &Arc<EngineHandle>, object: Object, options: LimiterOptions) -> Result<Self> {
        let known = Mutex::new(Known { quota: options.quota.validate()?, compared: false });
        let local = engine.shared.limits.locals.open(&object.name);
        let engine = Arc::clone(engine);
        let meter = Meter::new(engine.shared.store(), object.kind, &object.name);
        let state = LimiterState { engine, object, local, options, known, meter };
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
            match handle.place(cost, max_wait, end).await {
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

    /// Makes one reservation and sleeps once (L6); the end of the store object interrupts the sleep.
    async fn wait_at_most(
        &self,
        operation: &'static str,
        cost: u64,
        timeout: Option<Duration>,
    ) -> Result<bool> {
        let handle = &self.handle;
        let waited = async {
            // Asked before the flag's lock is taken, which a forked child must not do, and after, so that no close is missed.
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

    fn knowledge(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn known(&self) -> Known {
        *self.knowledge()
    }

    /// Notes the quota in force. A call of cost 0 compares nothing, and may have found nothing.
    pub(super) fn learn_by(&self, cost: u64, quota: ExactQuota) {
        if cost > 0 || self.known().compared {
            self.learn(quota);
        }
    }

    pub(super) fn learn(&self, quota: ExactQuota) {
        *self.knowledge() = Known { quota, compared: true };
    }

    /// Refuses a cost without a request: one that no quota admits, or that the quota which this handle requires does not admit.
    pub(super) fn check_cost(&self, cost: u64, known: Known) -> Result<()> {
        let follows = known.compared || self.options.on_mismatch == OnMismatch::Adopt;
        if cost > MAX || !follows { known.quota.check_cost(cost) } else { Ok(()) }
    }

    /// Returns the call. What takes nothing is not compared (C20).
    pub(super) fn call(&self, known: Known, ask: LimitAsk) -> Decide {
        let (LimitAsk::Take { cost } | LimitAsk::Reserve { cost, .. }) = ask;
        let follows = known.compared || cost == 0;
        let check =
            if follows { ParameterCheck::Follow } else { ParameterCheck::First(self.options.on_mismatch) };
        Decide { id: RequestId::NONE, object: self.object.clone(), quota: known.quota, check, ask }
    }

    /// Asks the store for the quota in force; one that is not stored is that of this handle.
    async fn ask_quota(&self) -> Result<ExactQuota> {
        let shared = &self.engine.shared;
        shared.check_open()?;
        let known = self.known();
        let call = self.call(known, LimitAsk::Take { cost: 0 });
        match shared.batcher.ask(call, shared.request_end(None)).await? {
            Limited::Taken { quota, .. } => Ok(quota),
            other => Err(self.refusal(&other, 0, known)),
        }
    }

    async fn decide(&self, cost: u64) -> Result<Decision> {
        let shared = &self.engine.shared;
        shared.check_open()?;
        let known = self.known();
        self.check_cost(cost, known)?;
        let epoch = match self.options.refusal_cache.then(|| self.local.refused(cost)) {
            Some(Ok(decision)) if known.compared => return Ok(decision),
            Some(Err(epoch)) => Some(epoch),
            _ => None,
        };
        let call = self.call(known, LimitAsk::Take { cost });
        let answered = match shared.batcher.ask_timed(call, shared.request_end(None)).await {
            Ok(answered) => answered,
            Err(error) => return self.decide_without(cost, error),
        };
        let Limited::Taken { verdict, quota, settled } = answered.answer else {
            return Err(self.refusal(&answered.answer, cost, known));
        };
        if known.quota != quota || !known.compared {
            self.learn_by(cost, quota);
        }
        if let Some(epoch) = epoch
            && settled
            && !verdict.allowed
        {
            self.local.remember(cost, verdict, answered.sent, answered.received, epoch);
        }
        Ok(decision(verdict))
    }

    /// Returns the error that an answer other than a decision means.
    pub(super) fn refusal(&self, limited: &Limited, cost: u64, known: Known) -> Error {
        match limited {
            Limited::Mismatch { stored } => Error::mismatch("quota", known.quota, stored),
            Limited::TooLarge { quota } => {
                self.learn(*quota);
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

pub(super) fn decision(verdict: Verdict) -> Decision {
    let retry_after = verdict.retry_after.map(Duration::from_micros);
    Decision::new(verdict.limit, verdict.remaining, retry_after, Duration::from_micros(verdict.reset_after))
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
        let asked = self.handle.engine.shared.on(self.handle.ask_quota()).await;
        asked.map_err(|error| self.handle.context("quota", error))
    }

    async fn set_quota(&self, quota: Quota) -> Result<()> {
        let handle = &self.handle;
        handle.engine.shared.check_open().map_err(|error| handle.context("set_quota", error))?;
        let set = async {
            let quota = quota.validate()?;
            handle.local.forget();
            let object = handle.object.clone();
            handle.engine.shared.steps.ask(SetQuota { object, quota }).await?;
            handle.learn(quota);
            Ok(())
        };
        let set = handle.engine.shared.on(set).await;
        handle.local.forget();
        set.map_err(|error| handle.context("set_quota", error))
    }

    async fn reset(&self) -> Result<()> {
        let handle = &self.handle;
        handle.engine.shared.check_open().map_err(|error| handle.context("reset", error))?;
        let reset = async {
            handle.local.forget();
            handle.engine.shared.steps.ask(Reset { object: handle.object.clone() }).await
        };
        let reset = handle.engine.shared.on(reset).await;
        handle.local.forget();
        reset.map_err(|error| handle.context("reset", error))
    }
}
