//! The steps that a store provides. A case that needs a missing step cannot be shown.

use async_trait::async_trait;
use stanchion_core::limiter::ExactQuota;
use stanchion_core::spi::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Exchange, Exchanged, Force, GroupSteps, Kept,
    LimitCall, LimitSteps, Limited, Look, Looked, Object, PermitSteps, Polled, Refund, Release, Renew,
    RequestId, Split, Steps, Usage, WakeSource,
};
use stanchion_core::{Inspection, Result, Ticket};

use crate::gaps::cannot_show;

/// Ends the case, which needs `what`: the harness does not provide it.
pub(super) fn lacks(what: &str) -> ! {
    cannot_show(&format!("the harness does not provide {what}"));
    unreachable!("the case has ended")
}

/// No source of wake-ups.
#[derive(Debug)]
pub(super) struct NoWakeUps;

#[async_trait]
impl WakeSource for NoWakeUps {
    fn watch(&self, _: &Object, _: bool) {}

    async fn next(&self) -> Result<Vec<Ticket>> {
        lacks("a source of wake-ups")
    }
}

/// The steps that a store provides.
#[derive(Debug)]
pub(super) struct ProvidedSteps(pub(super) Steps);

impl ProvidedSteps {
    fn groups(&self) -> &dyn GroupSteps {
        self.0.groups.as_deref().unwrap_or_else(|| lacks("wait groups"))
    }

    fn limits(&self) -> &dyn LimitSteps {
        self.0.limits.as_deref().unwrap_or_else(|| lacks("limiters"))
    }
}

#[async_trait]
impl PermitSteps for ProvidedSteps {
    fn lane(&self, object: &Object) -> usize {
        self.0.permits.lane(object)
    }

    fn exchange_lane(&self, object: &Object) -> Option<usize> {
        self.0.permits.exchange_lane(object)
    }

    async fn exchange(&self, batch: &[Exchange]) -> Answers<Exchanged> {
        self.0.permits.exchange(batch).await
    }

    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        self.0.permits.acquire(batch).await
    }

    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        self.0.permits.renew(batch).await
    }

    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        self.0.permits.release(batch).await
    }

    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        self.0.permits.cancel(batch).await
    }

    async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        self.0.permits.poll(batch).await
    }

    async fn keep_places(&self, batch: &[Object]) -> Answers<Option<Polled>> {
        self.0.permits.keep_places(batch).await
    }

    async fn attach(&self, attach: &Attach) -> Result<Option<Attached>> {
        self.0.permits.attach(attach).await
    }

    async fn inspect(&self, object: &Object) -> Result<Inspection> {
        self.0.permits.inspect(object).await
    }

    async fn usage(&self, object: &Object) -> Result<Usage> {
        self.0.permits.usage(object).await
    }

    async fn resize(&self, object: &Object, limit: u32) -> Result<()> {
        self.0.permits.resize(object, limit).await
    }

    async fn force(&self, object: &Object, force: Force) -> Result<u32> {
        self.0.permits.force(object, force).await
    }

    async fn ping(&self) -> Result<()> {
        self.0.permits.ping().await
    }
}

#[async_trait]
impl GroupSteps for ProvidedSteps {
    fn lane(&self, object: &Object) -> usize {
        self.groups().lane(object)
    }

    async fn look(&self, batch: &[Look]) -> Answers<Looked> {
        self.groups().look(batch).await
    }

    async fn split(&self, split: &Split) -> Result<bool> {
        self.groups().split(split).await
    }
}

#[async_trait]
impl LimitSteps for ProvidedSteps {
    fn lane(&self, object: &Object) -> usize {
        self.limits().lane(object)
    }

    async fn decide(&self, request: RequestId, calls: &[LimitCall]) -> Answers<Limited> {
        self.limits().decide(request, calls).await
    }

    async fn refund(&self, batch: &[Refund]) -> Answers<u64> {
        self.limits().refund(batch).await
    }

    async fn set_quota(&self, object: &Object, quota: ExactQuota) -> Result<()> {
        self.limits().set_quota(object, quota).await
    }

    async fn reset(&self, object: &Object) -> Result<()> {
        self.limits().reset(object).await
    }
}
