//! The state of one mutex in this process.

use std::sync::Arc;

use stanchion_core::clock::Instant;
use stanchion_core::spi::{Acquire, Acquired};
use stanchion_core::{FencingToken, Name, Result, Ticket, Ttl};
use tokio::sync::oneshot;

use super::session_state::SessionId;

/// Sends the reply to the caller of one request. The caller may have gone.
pub(super) type ReplySender<T> = oneshot::Sender<Result<T>>;

/// A mutex that is held or requested in this process. While this process holds it, none of its sessions may
/// be granted it again.
#[derive(Debug, Default)]
pub(super) struct MutexState {
    pub(super) held: Option<SessionHold>,
    /// The attempt that is queued or sent.
    pub(super) attempt: Option<LockAttempt>,
    /// Requests that came after the attempt was sent: its outcome says nothing about them.
    pub(super) later_requests: Vec<LockRequest>,
}

/// A hold of this process.
#[derive(Debug)]
pub(super) struct SessionHold {
    pub(super) ticket: Ticket,
    pub(super) token: FencingToken,
    pub(super) label: Option<Arc<str>>,
    pub(super) session: SessionId,
    pub(super) since: Instant,
    /// The end of the lease.
    pub(super) until: Instant,
    /// The hold is recorded, or is being recorded.
    pub(super) is_recorded: bool,
}

/// A try on behalf of all requests for the mutex.
#[derive(Debug)]
pub(super) struct LockAttempt {
    /// The number of the attempt, which tells its answer from the late answer to an earlier one.
    pub(super) number: u64,
    pub(super) sent: bool,
    /// Whether the try reads which ticket is the first in the queue; otherwise it reads only whether there is
    /// a queue.
    pub(super) reads_queue: bool,
    pub(super) requests: Vec<LockRequest>,
}

/// A caller's request for a mutex.
#[derive(Debug)]
pub(super) struct LockRequest {
    /// The number of the request.
    pub(super) number: u64,
    pub(super) acquisition: Acquisition,
    /// The ticket was cancelled.
    pub(super) cancelled: bool,
    pub(super) reply: ReplySender<TryOutcome>,
}

/// The outcome of a try for one request.
#[derive(Debug)]
pub(super) enum TryOutcome {
    /// The final answer to the acquisition.
    Answered(Acquired),
    /// Granted to a ticket that has, or may have, a place in the queue. The receiver is notified once the
    /// place is left.
    GrantedFromQueue(Acquired, oneshot::Receiver<()>),
    /// The mutex is not free, or another ticket is the first in the queue. `has_place`: this ticket is in the
    /// queue, as far as is known.
    Refused { has_place: bool },
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueuePlace {
    /// The epoch of the record that has the place; `None` if it is not certain that there is one.
    pub(super) epoch: Option<u64>,
    /// Number of unanswered requests to join the queue: copies of them may be under way.
    pub(super) unanswered: u32,
}

/// The turn of a user's transaction.
#[derive(Clone, Debug)]
pub(super) struct TransactionTurn {
    pub(super) name: Name,
    /// The store may know of it: the turn is waited for, is granted, or is in doubt.
    pub(super) may_be_there: bool,
}

/// The part of an acquisition that a hold or a refusal needs.
#[derive(Clone, Debug)]
pub(super) struct Acquisition {
    pub(super) ticket: Ticket,
    pub(super) lease: Ttl,
    pub(super) label: Option<Arc<str>>,
    /// The ticket joins the queue if it is not granted.
    pub(super) joins_queue: bool,
}

impl Acquisition {
    pub(super) fn of(acquire: &Acquire) -> Self {
        Self {
            ticket: acquire.ticket,
            lease: acquire.lease,
            label: acquire.label.clone(),
            joins_queue: acquire.queue,
        }
    }
}

impl MutexState {
    pub(super) fn is_idle(&self) -> bool {
        self.held.is_none() && self.attempt.is_none() && self.later_requests.is_empty()
    }

    /// Returns all requests, those of the attempt first.
    pub(super) fn requests(&mut self) -> impl Iterator<Item = &mut LockRequest> {
        self.attempt.iter_mut().flat_map(|attempt| &mut attempt.requests).chain(&mut self.later_requests)
    }

    /// Returns the hold if it is that ticket's.
    pub(super) fn held_by(&mut self, ticket: Ticket) -> Option<&mut SessionHold> {
        self.held.as_mut().filter(|held| held.ticket == ticket)
    }
}
