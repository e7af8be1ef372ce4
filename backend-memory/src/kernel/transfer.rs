//! Holds that change hands: detached, attached, split.

use stanchion_core::{FencingToken, Ticket, Ttl};

use super::holds::Grant;
use super::permits::{Claim, Permits};
use super::terms::Lease;
use super::turn::Turn;
use crate::session::SessionId;

impl Permits {
    /// Gives a hold a lease and takes it from its guard; `false` if the ticket has none (C24).
    pub(crate) fn detach(&mut self, ticket: Ticket, ttl: Ttl, turn: &mut Turn<'_>) -> bool {
        let Some(grant) = self.holds.remove(ticket) else {
            return false;
        };
        let lease = Some(Box::new(Lease::fixed(turn.at().now, ttl)));
        self.hold(Grant { session: SessionId::NOBODY, lease, ..grant }, turn);
        true
    }

    /// Gives a detached hold to the ticket, store object and terms of a claim, with the token and the weight it has;
    /// `None` if there is no such hold (C24). One that a guard keeps is not to be had.
    pub(crate) fn attach(
        &mut self,
        from: Ticket,
        claim: Claim<'_>,
        turn: &mut Turn<'_>,
    ) -> Option<(FencingToken, u32)> {
        self.holds.get(from).filter(|grant| grant.is_detached())?;
        let grant = self.holds.remove(from)?;
        let attached = (grant.token, grant.weight);
        let Claim { ticket, session, terms, .. } = claim;
        let lease = terms.lease(turn.at().now);
        let terms = if terms.label().is_some() { terms.clone() } else { grant.terms.clone() };
        self.hold(Grant { ticket, session, lease, terms, ..grant }, turn);
        Some(attached)
    }

    /// Splits a hold into holds of 1 with tickets and tokens of their own. Of a hold that is gone, the parts are gone.
    pub(crate) fn split(
        &mut self,
        ticket: Ticket,
        count: u32,
        turn: &mut Turn<'_>,
    ) -> Vec<(Ticket, FencingToken)> {
        let whole = self.holds.remove(ticket);
        let mut parts = Vec::new();
        for _ in 0..count {
            let (ticket, token) = (Ticket::random(), self.draw_token(turn.at().micros));
            if let Some(grant) = &whole {
                self.hold(Grant { ticket, token, weight: 1, ..grant.clone() }, turn);
            }
            parts.push((ticket, token));
        }
        parts
    }
}
