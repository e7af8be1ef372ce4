//! Decisions while the store is away, by the outage policy (L10).

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::handle::LimiterState;
use crate::clock::sleep;
use crate::engine::timing::{LATE, engine_now as now};
use crate::limiter::{ExactQuota, Verdict};
use crate::spi::{Decide, LimitAsk, RequestId};
use crate::{DecidedBy, Decision, Error, ErrorKind, OutagePolicy, Reservation, Result, Ticket};

impl LimiterState {
    /// Returns whether only the store can admit that cost: the policy is to fail, or the share's
    /// burst is smaller.
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

    /// Asks the store; where the policy can decide, no longer than until the server is known to be
    /// away (C28). An answer that is late is asked for beside it.
    ///
    /// # Errors
    /// That of the request; the last one of a server that is away; `Closed`.
    pub(super) async fn unless_away<T>(
        &self,
        cost: u64,
        mut ask: Pin<&mut impl Future<Output = Result<T>>>,
    ) -> Result<T> {
        if self.needs_store(cost) {
            return ask.await;
        }
        let shared = &self.engine.shared;
        shared.check_open()?;
        let question = self.call(self.quota.value(), LimitAsk::Take { cost: 0 });
        let server = shared.steps.lane(&question.clone().into()).server;
        let probe = || {
            let id = RequestId { sequence: Ticket::random(), number: 1 };
            shared.probe(server, || Decide { id, ..question.clone() }.into());
        };
        loop {
            let noticed = shared.containment.outages.noticed.notified();
            if let Some(error) = shared.containment.availability.away(server) {
                probe();
                return Err(error);
            }
            tokio::select! {
                biased;
                answer = &mut ask => return answer,
                () = noticed => {}
                () = sleep(LATE) => probe(),
            }
        }
    }

    /// Returns what decides in place of the store: the quota of the call, and this process's share
    /// of it, or `None` where every call is allowed.
    ///
    /// # Errors
    /// `error` itself, if the policy is to fail or the cost is more than the share's burst.
    fn stand_in(&self, cost: u64, error: Error) -> Result<(ExactQuota, Option<ExactQuota>)> {
        let is_away = match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Unknown => true,
            // The way to the server, where the store is open.
            ErrorKind::Closed => self.engine.shared.check_open().is_ok(),
            _ => false,
        };
        if !is_away {
            // It is an answer, or is final.
            return Err(error);
        }
        let quota = self.quota.value();
        quota.check_cost(cost)?;
        match self.options.outage {
            OutagePolicy::FailClosed => Err(error),
            OutagePolicy::FailOpen => Ok((quota, None)),
            OutagePolicy::LocalShare(n) => {
                let share = quota.share(n);
                if cost > share.burst() { Err(error) } else { Ok((quota, Some(share))) }
            }
        }
    }

    fn note_decision(&self) {
        self.engine.shared.containment.outages.decided_without(self.object.name.as_str());
    }

    /// Decides by the policy in place of the store.
    ///
    /// # Errors
    /// As [`stand_in`](Self::stand_in).
    pub(super) fn decide_without(&self, cost: u64, error: Error) -> Result<Decision> {
        let (quota, share) = self.stand_in(cost, error)?;
        let verdict = match share {
            Some(share) => self.local.ask_share(share, |bucket, at| bucket.take(at, cost))?,
            None => {
                let (limit, remaining) = (quota.burst(), quota.burst());
                Verdict { allowed: true, limit, remaining, retry_after: None, reset_after: 0 }
            }
        };
        self.note_decision();
        Ok(Decision { decided_by: DecidedBy::OutagePolicy, ..verdict.into() })
    }

    /// Reserves by the policy in place of the store; `None` if the share has nothing within
    /// `max_wait`.
    ///
    /// # Errors
    /// As [`stand_in`](Self::stand_in).
    pub(super) fn reserve_without(
        &self,
        cost: u64,
        max_wait: u64,
        error: Error,
    ) -> Result<Option<Reservation>> {
        let (_, share) = self.stand_in(cost, error)?;
        let (at, ticket) = (now(), Ticket::random());
        let wait = match share {
            Some(share) => self.local.ask_share(share, |bucket, micros| {
                let reserved = bucket.reserve(micros, ticket.as_u128(), cost, max_wait)?;
                Result::Ok(reserved.map(|reserved| reserved.wait))
            })?,
            None => Some(0),
        };
        self.note_decision();
        self.meter.decided_by_policy(wait.is_some());
        Ok(wait.map(|wait| {
            let ready_at = at.checked_add(Duration::from_micros(wait)).unwrap_or(at);
            Reservation::new(Arc::clone(&self.local) as _, ticket, cost, ready_at)
        }))
    }
}
