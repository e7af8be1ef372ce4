//! Limiters of networked stores: many callers' calls in one flight, what this process remembers of refusals, and what
//! decides while the store is away.

mod flight;
mod handle;
mod local;
mod policy;
mod reservation;
mod waiting;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use self::flight::Flights;
pub(crate) use self::handle::Limits;
use self::local::Locals;
use super::joint::Joint;
use super::steps::{LimitSteps, Object};
use crate::Ticket;

/// What all limiters of one store object share.
#[derive(Debug)]
pub(crate) struct Limiting {
    /// The steps over the callers' connection.
    steps: Arc<dyn LimitSteps>,
    flights: Joint<Flights>,
    locals: Locals,
    claims: Mutex<Claims>,
    /// Told when the store object closes.
    closing: Notify,
}

/// The reservations that calls under way have made, or may have made, in their order.
#[derive(Debug, Default)]
struct Claims {
    count: u64,
    by_ticket: HashMap<Ticket, Claimed>,
}

/// A reservation that a call under way has made, or may have made.
#[derive(Debug)]
pub(crate) struct Claimed {
    number: u64,
    pub(crate) object: Object,
    /// When its time comes at the latest; `None` is later than the clock reaches.
    pub(crate) ready_by: Option<Instant>,
}

impl Limiting {
    pub(crate) fn new(steps: Arc<dyn LimitSteps>) -> Self {
        Self {
            flights: Joint::new(Flights(Arc::clone(&steps))),
            steps,
            locals: Locals::default(),
            claims: Mutex::default(),
            closing: Notify::new(),
        }
    }

    /// Ends those who wait, and tells which reservations are theirs, the last first: so that nobody stands behind one
    /// that is cancelled, and all of it is given back. New calls are refused already.
    pub(crate) fn close(&self) -> Vec<(Ticket, Claimed)> {
        self.closing.notify_waiters();
        let mut claims: Vec<_> = self.claims().by_ticket.drain().collect();
        claims.sort_unstable_by_key(|(_, claimed)| std::cmp::Reverse(claimed.number));
        claims
    }

    fn claim(&self, ticket: Ticket, object: &Object, ready_by: Option<Instant>) {
        let mut claims = self.claims();
        claims.count += 1;
        let number = claims.count;
        claims.by_ticket.insert(ticket, Claimed { number, object: object.clone(), ready_by });
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
