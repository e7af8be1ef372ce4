//! What a process knows of one mutex.

use std::sync::Arc;

use stanchion_core::clock::Instant;
use stanchion_core::steps::{Acquire, Acquired};
use stanchion_core::{FencingToken, Name, Result, Ticket, Ttl};
use tokio::sync::oneshot;

use super::post::PostId;

/// Who waits for the answer to a part of a batch. It may have gone.
pub(super) type Caller<T> = oneshot::Sender<Result<T>>;

/// A mutex that something is under way for. Where this process holds it, no session of its own may be granted it again.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) held: Option<Held>,
    /// A try, queued or sent.
    pub(super) attempt: Option<Attempt>,
    /// Those that came after it was sent: it says nothing to them.
    pub(super) behind: Vec<Asker>,
}

/// A hold of this process.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) ticket: Ticket,
    pub(super) token: FencingToken,
    pub(super) label: Option<Arc<str>>,
    pub(super) post: PostId,
    pub(super) since: Instant,
    /// From here on nobody believes in it who has not renewed it.
    pub(super) until: Instant,
    /// It is written for others to see, or is about to be.
    pub(super) is_noted: bool,
}

/// A try on behalf of all who want the mutex.
#[derive(Debug)]
pub(super) struct Attempt {
    /// Names the try: a late answer to another one is not this one's.
    pub(super) number: u64,
    pub(super) sent: bool,
    /// It looks whose turn it is; otherwise, only whether there is a queue.
    pub(super) reads_queue: bool,
    pub(super) askers: Vec<Asker>,
}

/// Who wants a mutex.
#[derive(Debug)]
pub(super) struct Asker {
    /// Names the request.
    pub(super) number: u64,
    pub(super) waiter: Waiter,
    /// Nobody wants the outcome any more.
    pub(super) cancelled: bool,
    pub(super) caller: Caller<Tried>,
}

/// The outcome of a try.
#[derive(Debug)]
pub(super) enum Tried {
    /// The final answer to the acquisition.
    Answered(Acquired),
    /// Granted to a ticket that has, or may have, a place in the queue. Told once that is given up.
    Leaving(Acquired, oneshot::Receiver<()>),
    /// It is not free, or it is somebody else's turn. `has_place`: the ticket queues, as far as is known.
    Refused { has_place: bool },
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// The epoch of its record; `None` if the ticket may have a place.
    pub(super) epoch: Option<u64>,
    /// How many requests that join the queue were not answered: copies of them may be under way.
    pub(super) unanswered: u32,
}

/// The turn of a user's transaction.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) name: Name,
    /// The store may know of it: it waits, is had, or is in doubt.
    pub(super) may_be_there: bool,
}

/// An acquisition.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    pub(super) lease: Ttl,
    pub(super) label: Option<Arc<str>>,
    /// It joins the queue if it is not granted.
    pub(super) queues: bool,
}

impl Waiter {
    pub(super) fn of(acquire: &Acquire) -> Self {
        Self {
            ticket: acquire.ticket,
            lease: acquire.lease,
            label: acquire.label.clone(),
            queues: acquire.queue,
        }
    }
}

impl Entry {
    pub(super) fn is_idle(&self) -> bool {
        self.held.is_none() && self.attempt.is_none() && self.behind.is_empty()
    }

    /// Whoever wants it, with a try under way or behind one.
    pub(super) fn askers(&mut self) -> impl Iterator<Item = &mut Asker> {
        self.attempt.iter_mut().flat_map(|attempt| &mut attempt.askers).chain(&mut self.behind)
    }

    /// The hold, if it is that ticket's.
    pub(super) fn held_by(&mut self, ticket: Ticket) -> Option<&mut Held> {
        self.held.as_mut().filter(|held| held.ticket == ticket)
    }
}
