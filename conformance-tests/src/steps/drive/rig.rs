//! Limiters by a clock that the case sets, one after the other.

use std::fmt;
use std::sync::Arc;

use stanchion_core::Ticket;
use stanchion_core::steps::{
    RequestId, LimitAsk, LimitCall, LimitSteps, Limited, Object, QuotaCheck, Refund,
};
use stanchion_core::limiter::ExactQuota;

use super::super::ClockHarness;
use super::{Lane, all, limiter, one};

/// A limiter of a harness, and then another.
pub struct Rig<'a> {
    /// The steps of the harness.
    pub steps: Arc<dyn LimitSteps>,
    /// The limiter that is asked.
    pub object: Object,
    harness: &'a dyn ClockHarness,
    number: u64,
    lane: Lane,
}

impl<'a> Rig<'a> {
    /// The first limiter, which has no bucket yet.
    #[must_use]
    pub fn new(harness: &'a dyn ClockHarness) -> Self {
        Self { steps: harness.steps(), object: limiter("0"), harness, number: 0, lane: Lane::new() }
    }

    /// Another limiter, which has no bucket yet.
    pub fn next(&mut self) {
        self.number += 1;
        self.object = limiter(&self.number.to_string());
    }

    /// Sets the clock, in µs since 1970.
    pub async fn at(&self, now: u64) {
        self.harness.at(now).await;
    }

    /// The next flight of the rig's lane.
    #[must_use]
    pub fn next_id(&mut self) -> RequestId {
        self.lane.next_id()
    }

    /// A call that follows the stored quota.
    #[must_use]
    pub fn call(&self, quota: ExactQuota, ask: LimitAsk) -> LimitCall {
        LimitCall { object: self.object.clone(), quota, check: QuotaCheck::Follow, ask }
    }

    /// What the calls of one flight are told.
    ///
    /// # Panics
    /// If a retry is told otherwise, or the store cannot be asked.
    pub async fn decide(&mut self, calls: &[(ExactQuota, QuotaCheck, LimitAsk)]) -> Vec<Limited> {
        let flight = self.next_id();
        let call = |&(quota, check, ask)| LimitCall { check, ..self.call(quota, ask) };
        let calls: Vec<_> = calls.iter().map(call).collect();
        let answers = all(self.steps.decide(flight, &calls).await);
        assert_eq!(answers, all(self.steps.decide(flight, &calls).await), "a retry");
        answers
    }

    /// What the only call of a flight is told.
    pub async fn one(&mut self, quota: ExactQuota, ask: LimitAsk) -> Limited {
        self.decide(&[(quota, QuotaCheck::Follow, ask)]).await.remove(0)
    }

    /// How many tokens the refund of a reservation gives back.
    pub async fn refund(&self, id: u128) -> u64 {
        let refund = Refund { object: self.object.clone(), ticket: Ticket::from(id) };
        one(self.steps.refund(&[refund]).await)
    }
}

impl fmt::Debug for Rig<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rig")
            .field("steps", &self.steps)
            .field("object", &self.object)
            .finish_non_exhaustive()
    }
}
