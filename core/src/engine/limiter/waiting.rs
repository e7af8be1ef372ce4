//! Waiting for tokens: one reservation, and a sleep until it is ready.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::handle::{LimiterState, limiter_micros};
use super::reservation::Claim;
use crate::clock::now;
use crate::engine::retrying::{Attempts, WaitLimit};
use crate::engine::timing::ANSWER_GRACE;
use crate::limiter::MAX;
use crate::spi::{LimitAsk, Limited};
use crate::{ErrorKind, Reservation, Result, Ticket};

/// Later than any request ends.
const NO_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

impl LimiterState {
    /// Requests a reservation from the store until `end`. The claim is resolved, and stays until
    /// the caller drops it.
    pub(super) async fn place(
        self: &Arc<Self>,
        cost: u64,
        max_wait: u64,
        end: Instant,
    ) -> Result<(Option<Reservation>, Claim<'_>)> {
        self.engine.shared.check_open()?;
        self.check_cost(cost)?;
        let own = self.quota.value();
        let ticket = Ticket::random();
        let max_wait = max_wait.min(MAX);
        let mut claim = Claim::sent(self, ticket, max_wait, end)?;
        let call = self.call(own, LimitAsk::Reserve { ticket, cost, max_wait });
        let answered = match self.engine.shared.batcher.ask_timed(call, end).await {
            Ok(answered) => answered,
            Err(error) => {
                // Only a request that was certainly not executed leaves nothing: another error may
                // be that of a retry.
                if error.kind() == ErrorKind::Unavailable {
                    claim.resolved();
                }
                return Err(error);
            }
        };
        let Limited::Reserved { place, quota } = answered.answer else {
            claim.resolved();
            return Err(self.refusal(&answered.answer, cost, own));
        };
        self.learn(cost, quota);
        let Some(place) = place else {
            claim.resolved();
            return Ok((None, claim));
        };
        self.engine.shared.check_open()?;
        claim.resolved();
        // A time beyond the clock's range becomes one near its end.
        let ready_at = (0..64)
            .find_map(|halved| answered.received.checked_add(Duration::from_micros(place.wait >> halved)))
            .unwrap_or(answered.received);
        Ok((Some(Reservation::new(Arc::clone(self) as _, ticket, cost, ready_at)), claim))
    }

    /// Waits until the tokens are there; `false`, at once and without cost, if that is not within
    /// the limit.
    pub(super) async fn wait(self: &Arc<Self>, cost: u64, limit: Option<Duration>) -> Result<bool> {
        let wait_limit = limit.map_or(WaitLimit::Forever, WaitLimit::at_most);
        let mut max_wait = limit.map_or(MAX, limiter_micros);
        let mut attempts = Attempts::within(wait_limit);
        loop {
            let placing = pin!(self.place(cost, max_wait, self.request_end(cost, wait_limit)));
            let error = match self.unless_away(cost, placing).await {
                Ok((None, _)) => return Ok(false),
                Ok((Some(reservation), _claim)) => {
                    let late = wait_limit.end().map(|end| (end + ANSWER_GRACE).into_std());
                    if late.is_some_and(|late| reservation.ready_at() > late) {
                        return Ok(false);
                    }
                    reservation.wait().await;
                    return Ok(true);
                }
                Err(error) => error,
            };
            let left = |end: Instant| limiter_micros(end.saturating_duration_since(now()));
            max_wait = wait_limit.end().map_or(max_wait, left);
            if !self.needs_store(cost) {
                let Some(reservation) = self.reserve_without(cost, max_wait, error)? else {
                    return Ok(false);
                };
                reservation.wait().await;
                return Ok(true);
            }
            // A reservation whose outcome is unknown is not requested again: that could charge
            // twice.
            if error.kind() != ErrorKind::Unavailable {
                return Err(error);
            }
            attempts.ride_out(error).await?;
        }
    }

    /// Returns until when the store may answer: where the policy can decide instead, one request's
    /// time limit.
    fn request_end(&self, cost: u64, wait_limit: WaitLimit) -> Instant {
        let one = self.engine.shared.request_end(None);
        let all = match wait_limit {
            WaitLimit::None => one,
            WaitLimit::Until(end) => end + ANSWER_GRACE,
            WaitLimit::Forever => now() + NO_LIMIT,
        };
        if self.needs_store(cost) { all } else { all.min(one) }
    }
}
