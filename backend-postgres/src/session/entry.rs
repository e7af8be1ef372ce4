//! What a process knows of one mutex.

use std::collections::VecDeque;
use std::sync::Arc;

use stanchion_core::clock::Instant;
use stanchion_core::steps::{Acquire, Acquired};
use stanchion_core::{FencingToken, Result, Ticket, Ttl};
use tokio::sync::oneshot;

use super::post::PostId;

/// Who waits for the answer to a part of a batch. It may have gone.
pub(super) type Caller<T> = oneshot::Sender<Result<T>>;

/// A mutex that something is under way for. Where this process holds it, no session of its own may be granted it again.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) held: Option<Held>,
    /// A try over the shared session, queued or sent.
    pub(super) attempt: Option<Attempt>,
    /// Tries that nothing can be said to before that one is answered.
    pub(super) behind: VecDeque<Attempt>,
    /// The session that waits for it at the server, on behalf of the first in the queue.
    pub(super) waits: Option<PostId>,
    /// No session was free to wait.
    pub(super) starved: bool,
    /// First come, first served.
    pub(super) queue: VecDeque<Waiter>,
}

/// A hold of this process.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) ticket: Ticket,
    pub(super) token: FencingToken,
    pub(super) label: Option<Arc<str>>,
    pub(super) post: PostId,
    /// Its acquisition has heard of it.
    pub(super) claimed: bool,
    pub(super) since: Instant,
    /// From here on nobody believes in it who has not renewed it.
    pub(super) until: Instant,
}

/// A try.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) waiter: Waiter,
    /// Names the try: a late answer to another one is not this one's.
    pub(super) number: u64,
    /// What number was given last when it was sent: whoever asked by then may be told its outcome.
    pub(super) sent: Option<u64>,
    /// Nobody wants its outcome any more.
    pub(super) cancelled: bool,
    /// Where it is refused, the ticket queues.
    pub(super) queues: bool,
    /// None for the first in the queue.
    pub(super) caller: Option<Caller<Acquired>>,
}

/// An acquisition.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    pub(super) lease: Ttl,
    pub(super) label: Option<Arc<str>>,
}

impl Waiter {
    pub(super) fn of(acquire: &Acquire) -> Self {
        Self { ticket: acquire.ticket, lease: acquire.lease, label: acquire.label.clone() }
    }
}

impl Entry {
    /// Somebody of this process holds it, tries, or waits.
    pub(super) fn is_busy(&self) -> bool {
        self.held.is_some() || self.attempt.is_some() || !self.queue.is_empty()
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.is_busy() && self.waits.is_none()
    }

    /// A try of the ticket, under way or behind the one that is.
    pub(super) fn tried_by(&mut self, ticket: Ticket) -> Option<&mut Attempt> {
        self.attempt.iter_mut().chain(&mut self.behind).find(|attempt| attempt.waiter.ticket == ticket)
    }

    /// Something is under way for the ticket.
    pub(super) fn knows(&mut self, ticket: Ticket) -> bool {
        self.queue.iter().any(|waiter| waiter.ticket == ticket)
            || self.held_by(ticket).is_some()
            || self.tried_by(ticket).is_some()
    }

    /// Nobody of this process holds it or waits for it, but somebody tries.
    pub(super) fn is_open(&self) -> bool {
        self.held.is_none() && self.queue.is_empty() && self.attempt.is_some()
    }

    /// The hold, if it is that ticket's.
    pub(super) fn held_by(&mut self, ticket: Ticket) -> Option<&mut Held> {
        self.held.as_mut().filter(|held| held.ticket == ticket)
    }

    /// It is held on that session, or the session waits for it.
    pub(super) fn is_on(&self, post: PostId) -> bool {
        self.waits == Some(post) || self.held.as_ref().is_some_and(|held| held.post == post)
    }

    /// Takes a ticket out of the queue.
    pub(super) fn leave(&mut self, ticket: Ticket) -> bool {
        let place = self.queue.iter().position(|waiter| waiter.ticket == ticket);
        place.and_then(|place| self.queue.remove(place)).is_some()
    }
}
