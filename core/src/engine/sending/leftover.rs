//! What a request without an answer may have left at the store, and how that is freed.

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
}

impl Leftover {
    /// Returns the request that frees it, and until when that is tried. A place lasts as long as
    /// its process lives; a hold ends with its lease.
    pub(crate) fn freeing(&self) -> (Request, Option<Instant>) {
        let Self { object, ticket, lease, left } = self;
        let (object, ticket, lease) = (object.clone(), *ticket, lease.tombstone());
        let request = match left {
            Left::Place => return (Cancel { object, ticket, lease }.into(), None),
            Left::Hold => Cancel { object, ticket, lease }.into(),
            Left::Moved => {
                let ending = Ending::Abandoned;
                Release { object, ticket, ending, tombstone: Some(lease), call: None }.into()
            }
        };
        (request, now().checked_add(lease.get()))
    }
}
