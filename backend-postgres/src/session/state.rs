//! The state of session mode: three machines, and what passes between them.

use stanchion_core::clock::Instant;
use stanchion_core::spi::{ProcessId, Reports};
use stanchion_core::{Ticket, Ttl};

use super::holds::Holds;
use super::leave_requests::LeaveRequest;
use super::messages::SessionId;
use super::outbound::{NextAction, Outbound};
use super::places::Places;
use super::timing::probe_interval;

/// The state that callers, the engine and the session tasks share.
///
/// Each machine changes its own fields only. What concerns several of them is a method here: those
/// of callers' requests stand in `requests` and `unlock`, those of the server's answers in
/// `answers` and `try_lock`.
#[derive(Debug)]
pub(super) struct SharedState {
    pub(super) ttl: Ttl,
    /// The process id under which the places of this process are stored.
    pub(super) process: ProcessId,
    /// What this process holds.
    pub(super) holds: Holds,
    /// Where this process waits.
    pub(super) places: Places,
    /// What this process is about to send.
    pub(super) outbound: Outbound,
    pub(super) events: Vec<Event>,
    pub(super) reports: Option<Reports>,
}

/// A report to the engine, delivered once the state is unlocked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Wake(Ticket),
    Gone(Ticket),
}

impl SharedState {
    pub(super) fn new(ttl: Ttl, process: ProcessId) -> Self {
        let (holds, places, outbound) = (Holds::default(), Places::default(), Outbound::default());
        Self { ttl, process, holds, places, outbound, events: Vec::new(), reports: None }
    }

    /// Returns the next action of a session. A session that closes is no longer the current one.
    pub(super) fn next_action(&mut self, id: SessionId, at: Instant) -> NextAction {
        let has_holds = self.holds.any_of(id);
        let interval = probe_interval(self.ttl, has_holds);
        let places = &self.places;
        let has_place = |ticket| places.epoch(ticket).is_some();
        self.outbound.next_action(id, at, (interval, has_holds), has_place)
    }

    /// Takes the requests to leave places that are sent next over the engine's connections.
    pub(super) fn next_leave_requests(&mut self) -> Vec<LeaveRequest> {
        let Self { holds, places, .. } = self;
        places.leaving.take_next(|name, ticket| holds.of(name, ticket).is_some())
    }

    /// Completes a request whose place was left at `at`.
    pub(super) fn left_queue(&mut self, request: LeaveRequest, at: Instant) {
        let is_held = self.holds.of(&request.name, request.ticket).is_some();
        let alive = self.outbound.all_alive().unwrap_or(at);
        self.places.leaving.left(request, at, alive, is_held);
    }

    /// Unlocks holds whose lease has ended. Returns the sessions to be started, and when to call
    /// this again.
    pub(super) fn run_timers(&mut self, at: Instant) -> (Vec<SessionId>, Option<Instant>) {
        for (name, ticket) in self.holds.expired(at) {
            drop(self.end_hold(&name, ticket));
            self.events.push(Event::Gone(ticket));
        }
        (self.outbound.take_sessions_to_start(), self.holds.next_expiry())
    }
}
