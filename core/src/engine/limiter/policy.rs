//! Decisions while the store is away, by the outage policy (L10).

use std::sync::Arc;
use std::time::Duration;

use super::handle::LimiterState;
use crate::engine::timing::engine_now as now;
use crate::limiter::Verdict;
use crate::{DecidedBy, Decision, Error, ErrorKind, OutagePolicy, Reservation, Result, Ticket};

/// Returns whether an error says that the store is away. Every other error is an answer, or is final.
fn is_outage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown)
}

impl LimiterState {
    /// Returns whether only the store can admit that cost: the policy is to fail, or the share's burst is smaller.
    pub(super) fn needs_store(&self, cost: u64) -> bool {
        match self.options.outage {
            OutagePolicy::FailClosed => true,
            OutagePolicy::FailOpen => false,
            OutagePolicy::LocalShare(n) => {
                let quota = self.quota.value();
                cost <= quota.burst() && cost > quota.share(n).burst()
            }
        }
    }

    fn note_decision(&self) {
        self.engine.shared.containment.outages.decided_without(self.object.name.as_str());
    }

    /// Decides by the policy in place of the store.
    ///
    /// # Errors
    /// `error` itself, if the policy is to fail or the cost is more than the share's burst.
    pub(super) fn decide_without(&self, cost: u64, error: Error) -> Result<Decision> {
        if !is_outage(&error) {
            return Err(error);
        }
        let quota = self.quota.value();
        quota.check_cost(cost)?;
        let verdict = match self.options.outage {
            OutagePolicy::FailClosed => return Err(error),
            OutagePolicy::FailOpen => Verdict {
                allowed: true,
                limit: quota.burst(),
                remaining: quota.burst(),
                retry_after: None,
                reset_after: 0,
            },
            OutagePolicy::LocalShare(n) => {
                let decide = self.local.ask_share(quota.share(n), |bucket, at| bucket.take(at, cost));
                decide.map_err(|_| error)?
            }
        };
        self.note_decision();
        Ok(Decision { decided_by: DecidedBy::OutagePolicy, ..super::handle::decision(verdict) })
    }

    /// Reserves by the policy in place of the store; `None` if the share has nothing within `max_wait`.
    ///
    /// # Errors
    /// As [`decide_without`](Self::decide_without).
    pub(super) fn reserve_without(
        &self,
        cost: u64,
        max_wait: u64,
        error: Error,
    ) -> Result<Option<Reservation>> {
        if !is_outage(&error) {
            return Err(error);
        }
        let quota = self.quota.value();
        quota.check_cost(cost)?;
        let (at, ticket) = (now(), Ticket::random());
        let wait = match self.options.outage {
            OutagePolicy::FailClosed => return Err(error),
            OutagePolicy::FailOpen => 0,
            OutagePolicy::LocalShare(n) => {
                let share = quota.share(n);
                let reserved = self.local.ask_share(share, |bucket, micros| {
                    bucket.reserve(micros, ticket.as_u128(), cost, max_wait)
                });
                let Some(reserved) = reserved.map_err(|_| error)? else {
                    self.note_decision();
                    self.meter.decided_by_policy(false);
                    return Ok(None);
                };
                reserved.wait
            }
        };
        self.note_decision();
        self.meter.decided_by_policy(true);
        let ready_at = at.checked_add(Duration::from_micros(wait)).unwrap_or(at);
        Ok(Some(Reservation::new(Arc::clone(&self.local) as _, ticket, cost, ready_at)))
    }
}
