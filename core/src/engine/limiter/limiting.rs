//! What the limiters of one store object share, and the reservations of calls under way.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::local::Locals;
use crate::runtime::Broadcast;
use crate::spi::Object;
use crate::{Error, Result, Ticket};

/// The state shared by all limiters of one store object.
#[derive(Debug, Default)]
pub(crate) struct Limiting {
    pub(super) locals: Locals,
    claims: Mutex<Claims>,
    /// Notified when the store object closes.
    pub(super) closing: Broadcast,
}

/// The reservations that calls under way have made, or may have made, in order.
#[derive(Debug, Default)]
pub(super) struct Claims {
    count: u64,
    pub(super) by_ticket: HashMap<Ticket, Claimed>,
    closed: bool,
}

/// A reservation that a call under way has made, or may have made.
#[derive(Debug)]
pub(crate) struct Claimed {
    number: u64,
    pub(crate) object: Object,
    /// When it is ready at the latest; `None` is beyond the clock's range.
    pub(crate) ready_by: Option<Instant>,
}

impl Limiting {
    /// Refuses new reservations and returns those of calls under way, the last one first, so that
    /// each is refunded in full: no other reservation is behind it.
    pub(crate) fn close(&self) -> Vec<(Ticket, Claimed)> {
        let mut claims = self.claims();
        claims.closed = true;
        let mut claims: Vec<_> = claims.by_ticket.drain().collect();
        claims.sort_unstable_by_key(|(_, claimed)| std::cmp::Reverse(claimed.number));
        claims
    }

    /// Ends all waiting calls. The caller has queued the refunds that [`close`](Self::close)
    /// returned, in their order; otherwise each call would queue its own, in any order.
    pub(crate) fn dismiss(&self) {
        self.closing.notify_waiters();
    }

    pub(super) fn claim(&self, ticket: Ticket, object: &Object, ready_by: Option<Instant>) -> Result<()> {
        let mut claims = self.claims();
        if claims.closed {
            return Err(Error::closed());
        }
        claims.count += 1;
        let number = claims.count;
        claims.by_ticket.insert(ticket, Claimed { number, object: object.clone(), ready_by });
        Ok(())
    }

    pub(super) fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
