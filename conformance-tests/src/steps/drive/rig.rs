//! Limiters with a clock that the case sets, one after the other.

use crate::steps::StepCalls;
use std::fmt;
use std::sync::Arc;

use stanchion_core::Ticket;
use stanchion_core::limiter::ExactQuota;
use stanchion_core::spi::{Decide, LimitAsk, Limited, Object, ParameterCheck, Refund, RequestId, Steps};

use super::super::ClockHarness;
use super::{Sequence, all, limiter, one};

/// One limiter of a harness at a time.
pub struct Rig<'a> {
    /// The steps of the harness.
    pub steps: Arc<dyn Steps>,
    /// The current limiter.
    pub object: Object,
    harness: &'a dyn ClockHarness,
    number: u64,
    sequence: Sequence,
}

impl<'a> Rig<'a> {
    /// Creates a rig with the first limiter, which has no bucket yet.
    #[must_use]
    pub fn new(harness: &'a dyn ClockHarness) -> Self {
        Self { steps: harness.steps(), object: limiter("0"), harness, number: 0, sequence: Sequence::new() }
    }

    /// Switches to another limiter, which has no bucket yet.
    pub fn next(&mut self) {
        self.number += 1;
        self.object = limiter(&self.number.to_string());
    }

    /// Sets the clock, in µs since 1970.
    pub async fn at(&self, now: u64) {
        self.harness.at(now).await;
    }

    /// Returns the id of the rig's next batch.
    #[must_use]
    pub fn next_id(&mut self) -> RequestId {
        self.sequence.next_id()
    }

    /// Returns a call that follows the stored quota.
    #[must_use]
    pub fn call(&self, quota: ExactQuota, ask: LimitAsk) -> Decide {
        Decide { id: RequestId::NONE, object: self.object.clone(), quota, check: ParameterCheck::Follow, ask }
    }

    /// Sends a batch of calls and its retry, and returns the answers.
    ///
    /// # Panics
    /// If the retry gets other answers, or the store cannot be asked.
    pub async fn decide(&mut self, calls: &[(ExactQuota, ParameterCheck, LimitAsk)]) -> Vec<Limited> {
        let request = self.next_id();
        let call = |&(quota, check, ask)| Decide { check, ..self.call(quota, ask) };
        let calls: Vec<_> = calls.iter().map(call).collect();
        let answers = all(self.steps.decide(request, &calls).await);
        assert_eq!(answers, all(self.steps.decide(request, &calls).await), "a retry");
        answers
    }

    /// Sends a batch of one call, and returns the answer.
    pub async fn one(&mut self, quota: ExactQuota, ask: LimitAsk) -> Limited {
        self.decide(&[(quota, ParameterCheck::Follow, ask)]).await.remove(0)
    }

    /// Refunds a reservation, and returns how many tokens it gives back.
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
