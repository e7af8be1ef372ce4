//! Limiters of networked stores: many callers' calls in one flight, what this process remembers of refusals, and what
//! decides while the store is away.

mod flight;
mod handle;
mod local;
mod policy;
mod reservation;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

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
    /// The reservations that calls under way have made, or may have made.
    claims: Mutex<HashMap<Ticket, Object>>,
    /// Told when the store object closes.
    closing: Notify,
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

    /// Ends those who wait, and tells which reservations are theirs. New calls are refused already.
    pub(crate) fn close(&self) -> Vec<(Object, Ticket)> {
        self.closing.notify_waiters();
        self.claims().drain().map(|(ticket, object)| (object, ticket)).collect()
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<Ticket, Object>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
