//! What a request without an answer may have left at the store, and how that is freed.

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::timing::engine_now as now;
use crate::spi::{Cancel, Ending, Object, Release, Request};
use crate::{Ticket, Ttl};

/// What a request of a ticket may have left at the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// A hold, or a place in the queue.
    Place,
    /// A hold.
    Hold,
    /// A hold that was moved to the ticket. It is released, not cancelled, so that a member of a
    /// wait group does not end uncounted.
    Moved,
}

/// A ticket, and what its request may have left.
#[derive(Clone, Debug)]
pub(crate) struct Leftover {
    pub(crate) object: Object,
    pub(crate) ticket: Ticket,
    pub(crate) lease: Ttl,
    pub(crate) left: Left,
    /// Every request of the ticket was answered.
    pub(crate) is_answered: bool,
    /// Whether the engine takes it over where its caller does not go on and others wait (C6).
    pub(crate) can_be_passed_over: bool,
}

impl Leftover {
    /// How long others wait for its caller. It is less than a lease, so that what was granted is
    /// withdrawn and does not expire (W4).
    pub(crate) fn patience(&self) -> Duration {
        self.lease.get() * 3 / 4
    }
}

impl Leftover {
    /// Returns the request that frees it, and until when that is tried. A place lasts as long as
    /// its process lives; a hold ends with its lease.
    pub(crate) fn freeing(&self) -> (Request, Option<Instant>) {
        let Self { object, ticket, lease, left, is_answered, .. } = self;
        let (object, ticket) = (object.clone(), *ticket);
        let tombstone = (!is_answered).then_some(lease.tombstone());
        let request = match left {
            Left::Place => return (Cancel { object, ticket, tombstone }.into(), None),
            Left::Hold => Cancel { object, ticket, tombstone }.into(),
            Left::Moved => {
                Release { object, ticket, ending: Ending::Abandoned, tombstone, call: None }.into()
            }
        };
        (request, now().checked_add((*lease).max(Ttl::DEFAULT).get()))
    }
}
