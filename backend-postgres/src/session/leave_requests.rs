//! Requests to leave places in the queue.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use stanchion_core::clock::Instant;
use stanchion_core::spi::Object;
use stanchion_core::{Kind, Name, Ticket, Ttl};
use tokio::sync::oneshot;

use crate::steps::PlaceToLeave;

/// Maximum number of places in one request.
const MAXIMUM_BATCH: usize = 256;
/// Maximum age of a commit that a crash of the server may lose: more than three times the default
/// of `wal_writer_delay`.
const MAXIMUM_UNFLUSHED_AGE: Duration = Duration::from_secs(2);

/// The places that are being left, and those that were left recently.
#[derive(Debug, Default)]
pub(super) struct LeaveRequests {
    queued: Vec<LeaveRequest>,
    /// Tickets whose places are being left by a request under way.
    under_way: HashSet<Ticket>,
    /// Places that were left recently, oldest first.
    recently_left: VecDeque<LeftPlace>,
}

/// A request to leave a place in the queue.
#[derive(Debug)]
pub(super) struct LeaveRequest {
    pub(super) name: Name,
    pub(super) ticket: Ticket,
    /// The mutex was already unlocked when the request was sent: until the place is left, tries of
    /// the next waiter fail.
    pub(super) is_free: bool,
    /// A copy of the request that joined the queue may still be under way.
    join_in_doubt: bool,
    /// The session that granted the mutex has tried to leave the place, or need not try.
    was_tried: bool,
    reply: Option<oneshot::Sender<()>>,
}

impl LeaveRequest {
    /// Makes a request that is sent over the engine's connections and that no caller waits for.
    fn new(name: &Name, ticket: Ticket) -> Self {
        let name = name.clone();
        Self { name, ticket, is_free: false, join_in_doubt: false, was_tried: true, reply: None }
    }

    pub(super) fn place(&self, ttl: Ttl) -> PlaceToLeave {
        let object = Object { kind: Kind::Mutex, name: self.name.clone() };
        let tombstone = self.join_in_doubt.then(|| ttl.max(Ttl::DEFAULT));
        PlaceToLeave { object, ticket: self.ticket, is_free: self.is_free, tombstone }
    }
}

/// A place that was left.
#[derive(Debug)]
struct LeftPlace {
    at: Instant,
    name: Name,
    ticket: Ticket,
}

impl LeaveRequests {
    /// Requests to leave the place of a ticket that was granted the mutex. The receiver is notified
    /// once the place is left.
    pub(super) fn add(&mut self, name: &Name, ticket: Ticket, join_in_doubt: bool) -> oneshot::Receiver<()> {
        let (reply, left) = oneshot::channel();
        let request = LeaveRequest {
            join_in_doubt,
            was_tried: false,
            reply: Some(reply),
            ..LeaveRequest::new(name, ticket)
        };
        self.queued.push(request);
        left
    }

    /// Requests to leave the place of a ticket that this process does not know, unless that is
    /// requested already.
    pub(super) fn add_orphan(&mut self, name: &Name, ticket: Ticket) {
        if self.queued.iter().all(|request| request.ticket != ticket) {
            let orphan =
                LeaveRequest { is_free: true, join_in_doubt: true, ..LeaveRequest::new(name, ticket) };
            self.queued.push(orphan);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    /// Returns whether the place of the ticket is about to be left.
    pub(super) fn contains(&self, ticket: Ticket) -> bool {
        self.under_way.contains(&ticket) || self.queued.iter().any(|request| request.ticket == ticket)
    }

    /// Returns how many places of a name wait to be left.
    pub(super) fn count(&self, name: &Name) -> u64 {
        self.queued.iter().filter(|request| request.name == *name).map(|_| 1).sum()
    }

    /// Takes the requests of new grants, which the granting session sends itself.
    pub(super) fn take_immediate(&mut self) -> Vec<LeaveRequest> {
        let taken: Vec<_> = self.queued.extract_if(.., |request| !request.was_tried).collect();
        self.under_way.extend(taken.iter().map(|request| request.ticket));
        taken
    }

    /// Takes the requests to be sent next over the engine's connections. `is_held`: the ticket
    /// still holds the mutex.
    pub(super) fn take_next(&mut self, is_held: impl Fn(&Name, Ticket) -> bool) -> Vec<LeaveRequest> {
        let mut taken: Vec<LeaveRequest> =
            self.queued.drain(..self.queued.len().min(MAXIMUM_BATCH)).collect();
        for request in &mut taken {
            request.is_free = !is_held(&request.name, request.ticket);
            self.under_way.insert(request.ticket);
        }
        taken
    }

    /// Queues requests that failed, to be sent over the engine's connections.
    pub(super) fn defer(&mut self, requests: impl IntoIterator<Item = LeaveRequest>) {
        for request in requests {
            self.under_way.remove(&request.ticket);
            self.queued.push(LeaveRequest { was_tried: true, ..request });
        }
    }

    /// Cancels the requests of a ticket that joins the queue again. Returns `false` if one of them
    /// is under way.
    pub(super) fn cancel(&mut self, ticket: Ticket) -> bool {
        self.queued.retain(|request| request.ticket != ticket);
        self.recently_left.retain(|left| left.ticket != ticket);
        !self.under_way.contains(&ticket)
    }

    /// Completes a request whose place was left at `at`. Every open session was alive at `alive`.
    /// `is_held`: the ticket still holds the mutex.
    pub(super) fn left(&mut self, request: LeaveRequest, at: Instant, alive: Instant, is_held: bool) {
        let LeaveRequest { name, ticket, is_free, join_in_doubt, reply, .. } = request;
        self.under_way.remove(&ticket);
        if !is_free && !is_held {
            // A try since the mutex was unlocked may have seen the place: its waiter needs a hint.
            let again = LeaveRequest { is_free: true, join_in_doubt, ..LeaveRequest::new(&name, ticket) };
            self.queued.push(again);
        }
        if let Some(reply) = reply {
            // The caller that waited for it may have gone.
            let _ = reply.send(());
        }
        // If every open session was alive more than that time after a place was left, the server
        // did not crash before its removal was on disk.
        while self.recently_left.front().is_some_and(|left| left.at + MAXIMUM_UNFLUSHED_AGE < alive) {
            self.recently_left.pop_front();
        }
        self.recently_left.push_back(LeftPlace { at, name, ticket });
    }

    /// Repeats requests after a session broke that was last alive at `alive`. If the server
    /// crashed, the places that were left shortly before that, or later, are there again.
    pub(super) fn repeat(&mut self, alive: Instant) {
        let left = std::mem::take(&mut self.recently_left).into_iter();
        let unflushed = left.filter(|left| left.at + MAXIMUM_UNFLUSHED_AGE >= alive);
        self.queued.extend(unflushed.map(|left| LeaveRequest::new(&left.name, left.ticket)));
    }
}
