//! Holds that change hands: detached, attached, split.

use stanchion_core::{FencingToken, Ticket, Ttl};

use super::claim::Claim;
use super::holds::Grant;
use super::permits::Permits;
use super::terms::Lease;
use super::transition::Transition;
use crate::session_id::SessionId;

impl Permits {
    /// Gives a hold a lease and takes it from its guard; returns `false` if the ticket has no hold,
    /// or its guard has lost it (C9, C24).
    pub(crate) fn detach(&mut self, ticket: Ticket, ttl: Ttl, transition: &mut Transition<'_>) -> bool {
        let now = transition.at().now;
        if !self.is_held(ticket, || now) {
            return false;
        }
        let Some(grant) = self.holds.remove(ticket) else {
            return false;
        };
        let lease = Some(Box::new(Lease::fixed(now, ttl)));
        self.hold(Grant { session: SessionId::NONE, lease, ..grant }, transition);
        true
    }

    /// Moves a detached hold to the ticket, store object and terms of a claim. Returns its token
    /// and weight, which stay the same; `None` if there is no such hold (C24), or if a guard keeps
    /// it.
    pub(crate) fn attach(
        &mut self,
        from: Ticket,
        claim: Claim<'_>,
        transition: &mut Transition<'_>,
    ) -> Option<(FencingToken, u32)> {
        self.holds.get(from).filter(|grant| grant.is_detached())?;
        let grant = self.holds.remove(from)?;
        let attached = (grant.token, grant.weight);
        let Claim { ticket, session, terms, .. } = claim;
        let lease = terms.lease(transition.at().now);
        let terms = if terms.label().is_some() { terms.clone() } else { grant.terms.clone() };
        self.hold(Grant { ticket, session, lease, terms, ..grant }, transition);
        Some(attached)
    }

    /// Splits holds of 1, with tickets and tokens of their own, off a hold; `None` if the hold is
    /// gone.
    pub(crate) fn split(
        &mut self,
        ticket: Ticket,
        count: u32,
        transition: &mut Transition<'_>,
    ) -> Option<Vec<(Ticket, FencingToken)>> {
        let whole = self.holds.remove(ticket)?;
        let mut parts = Vec::new();
        for _ in 0..count {
            let (ticket, token) = (Ticket::random_in_process(), self.draw_token(transition.at().micros));
            self.hold(Grant { ticket, token, weight: 1, ..whole.clone() }, transition);
            parts.push((ticket, token));
        }
        if whole.weight > count {
            self.hold(Grant { weight: whole.weight - count, ..whole }, transition);
        }
        Some(parts)
    }
}
