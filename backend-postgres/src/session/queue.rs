//! Leaving the queue, and hints to the next waiters, over the engine's connections.

use std::time::Duration;

use stanchion_core::clock::{Instant, now, sleep};
use stanchion_core::spi::Object;
use stanchion_core::{Kind, Name, Ticket, Ttl};
use tokio::sync::oneshot;

use super::lock_sessions::{LockSessions, SharedState};
use crate::steps::{self, PostgresSteps};

/// Maximum number of places or hints in one request.
const MAXIMUM_BATCH: usize = 256;
/// Interval before a failed request to leave places is repeated.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum age of a commit that a crash of the server may lose: more than three times the default of
/// `wal_writer_delay`.
const MAXIMUM_UNFLUSHED_AGE: Duration = Duration::from_secs(2);

/// A request to leave a place in the queue.
#[derive(Debug)]
pub(super) struct LeaveRequest {
    pub(super) name: Name,
    pub(super) ticket: Ticket,
    /// The mutex was already unlocked when the request was sent: until the place is left, tries of the next
    /// waiter fail.
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

    pub(super) fn place(&self, ttl: Ttl) -> steps::PlaceToLeave {
        let object = Object { kind: Kind::Mutex, name: self.name.clone() };
        let tombstone = self.join_in_doubt.then(|| ttl.max(Ttl::DEFAULT));
        steps::PlaceToLeave { object, ticket: self.ticket, is_free: self.is_free, tombstone }
    }
}

/// A place that was left.
#[derive(Debug)]
pub(super) struct LeftPlace {
    at: Instant,
    name: Name,
    ticket: Ticket,
}

impl SharedState {
    /// Requests to leave the place of a ticket that no longer waits; `None` if it has none.
    pub(super) fn leave_queue(&mut self, name: &Name, ticket: Ticket) -> Option<oneshot::Receiver<()>> {
        let join_in_doubt = self.places.remove(&ticket)?.unanswered > 0;
        let (reply, left) = oneshot::channel();
        let request = LeaveRequest {
            join_in_doubt,
            was_tried: false,
            reply: Some(reply),
            ..LeaveRequest::new(name, ticket)
        };
        self.leave_requests.push(request);
        Some(left)
    }

    /// Requests to leave the place of a ticket that this process does not know.
    pub(super) fn leave_orphaned_place(&mut self, name: &Name, ticket: Ticket) {
        let is_leaving = || self.leave_requests.iter().any(|request| request.ticket == ticket);
        if !self.places.contains_key(&ticket) && !is_leaving() {
            let orphan =
                LeaveRequest { is_free: true, join_in_doubt: true, ..LeaveRequest::new(name, ticket) };
            self.leave_requests.push(orphan);
        }
    }

    /// Returns how many places of a name this process is about to leave.
    pub(super) fn leaving_count(&self, name: &Name) -> u64 {
        self.leave_requests.iter().filter(|request| request.name == *name).map(|_| 1).sum()
    }

    /// Takes the requests of new grants, which the granting session sends itself.
    pub(super) fn immediate_leave_requests(&mut self) -> Vec<LeaveRequest> {
        let taken: Vec<_> = self.leave_requests.extract_if(.., |request| !request.was_tried).collect();
        self.leaving_now.extend(taken.iter().map(|request| request.ticket));
        taken
    }

    /// Queues requests that failed, to be sent over the engine's connections.
    pub(super) fn defer_leave_requests(&mut self, leave_requests: impl IntoIterator<Item = LeaveRequest>) {
        for request in leave_requests {
            self.leaving_now.remove(&request.ticket);
            self.leave_requests.push(LeaveRequest { was_tried: true, ..request });
        }
    }

    /// Takes the requests to be sent next over the engine's connections.
    pub(super) fn next_leave_requests(&mut self) -> Vec<LeaveRequest> {
        let mut taken: Vec<LeaveRequest> =
            self.leave_requests.drain(..self.leave_requests.len().min(MAXIMUM_BATCH)).collect();
        for request in &mut taken {
            request.is_free = self.holding_session(&request.name, request.ticket).is_none();
            self.leaving_now.insert(request.ticket);
        }
        taken
    }

    /// Cancels the requests of a ticket that joins the queue again. Returns `false` if one of them is under
    /// way.
    pub(super) fn cancel_leave(&mut self, ticket: Ticket) -> bool {
        self.leave_requests.retain(|request| request.ticket != ticket);
        self.recently_left.retain(|left| left.ticket != ticket);
        !self.leaving_now.contains(&ticket)
    }

    /// Completes a request whose place was left at `at`.
    pub(super) fn left_queue(&mut self, request: LeaveRequest, at: Instant) {
        let LeaveRequest { name, ticket, is_free, join_in_doubt, reply, .. } = request;
        self.leaving_now.remove(&ticket);
        if !is_free && self.holding_session(&name, ticket).is_none() {
            let again = LeaveRequest { is_free: true, join_in_doubt, ..LeaveRequest::new(&name, ticket) };
            self.leave_requests.push(again);
        }
        if let Some(reply) = reply {
            // The caller that waited for it may have gone.
            let _ = reply.send(());
        }
        // If every open session was alive more than that time after a place was left, the server did not crash
        // before its removal was on disk.
        let alive = self.sessions.values().filter_map(|session| session.last_alive).min().unwrap_or(at);
        while self.recently_left.front().is_some_and(|left| left.at + MAXIMUM_UNFLUSHED_AGE < alive) {
            self.recently_left.pop_front();
        }
        self.recently_left.push_back(LeftPlace { at, name, ticket });
    }

    /// Repeats requests after a session broke that was last alive at `alive`. If the server crashed, the
    /// places that were left shortly before that, or later, are there again.
    pub(super) fn repeat_leave_requests(&mut self, alive: Instant) {
        let left = std::mem::take(&mut self.recently_left).into_iter();
        let unflushed = left.filter(|left| left.at + MAXIMUM_UNFLUSHED_AGE >= alive);
        let request = |left: LeftPlace| LeaveRequest::new(&left.name, left.ticket);
        self.leave_requests.extend(unflushed.map(request));
    }
}

/// Leaves places, and repeats failed requests until they succeed. A name that another session keeps locked
/// delays no other.
pub(super) async fn leave_queues(lock_sessions: &LockSessions, steps: &PostgresSteps) {
    loop {
        let (requests, ttl) = lock_sessions.with(|state| (state.next_leave_requests(), state.ttl));
        if requests.is_empty() {
            lock_sessions.leave_requests_added.notified().await;
            continue;
        }
        let places: Vec<_> = requests.iter().map(|request| request.place(ttl)).collect();
        let answers = steps.leave_places(&places).await;
        let at = now();
        let mut failed = Vec::new();
        for (request, answer) in requests.into_iter().zip(answers) {
            match answer {
                Ok(()) => lock_sessions.with(|state| state.left_queue(request, at)),
                Err(error) => {
                    tracing::debug!(
                        stanchion.kind = Kind::Mutex.as_str(),
                        stanchion.name = request.name.as_str(),
                        error.type = error.kind().as_str(),
                        exception.message = ?error,
                        "a place could not be given up yet"
                    );
                    failed.push(request);
                }
            }
        }
        if !failed.is_empty() {
            lock_sessions.with(|state| state.defer_leave_requests(failed));
            sleep(RETRY_INTERVAL).await;
        }
    }
}

/// Sends hints to waiters of other processes.
pub(super) async fn send_hints(lock_sessions: &LockSessions, steps: &PostgresSteps) {
    loop {
        let (hints, count) = lock_sessions.with(|state| (std::mem::take(&mut state.hints), state.hint_count));
        if hints.is_empty() {
            lock_sessions.hints_added.notified().await;
        } else {
            for hints in hints.chunks(MAXIMUM_BATCH) {
                steps.send_hints(hints).await;
            }
            lock_sessions.hints_sent.send_replace(count);
        }
    }
}
