//! Timers: probes of sessions, and the end of leases.

use std::time::Duration;

use stanchion_core::clock::Instant;

use super::lock_sessions::{Event, SharedState};
use super::session_state::SessionId;

/// Maximum interval between two probes of a session with holds, so that its end is noticed soon.
const HOLDER_PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// How long an idle session without holds stays open.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between two attempts to open a session after a failure (C28).
pub(super) const OPEN_RETRY_INTERVAL: Duration = Duration::from_millis(500);

impl SharedState {
    /// Returns the interval between two probes of a session.
    pub(super) fn probe_interval(&self, id: SessionId) -> Duration {
        let interval = self.ttl.renewal();
        let holds = self.sessions.get(&id).is_some_and(|session| session.holds > 0);
        if holds { interval.min(HOLDER_PROBE_INTERVAL) } else { interval }
    }

    /// Unlocks holds whose lease has ended. Returns the sessions to be started, and when to call this again.
    pub(super) fn run_timers(&mut self, at: Instant) -> (Vec<SessionId>, Option<Instant>) {
        if self.next_expiry.is_some_and(|next_expiry| next_expiry <= at) {
            self.unlock_expired(at);
        }
        // The caller handles the change that this call made: a notification of it would cause endless calls.
        self.clear_schedule_change();
        (std::mem::take(&mut self.sessions_to_start), self.next_expiry)
    }

    /// Unlocks the holds that were not renewed (C8).
    fn unlock_expired(&mut self, at: Instant) {
        let held = self.mutexes.iter().filter_map(|(name, mutex)| Some((name, mutex.held.as_ref()?)));
        let expired: Vec<_> = held
            .clone()
            .filter(|(_, held)| held.until <= at)
            .map(|(name, held)| (name.clone(), held.ticket))
            .collect();
        self.next_expiry = held.map(|(_, held)| held.until).filter(|until| *until > at).min();
        for (name, ticket) in expired {
            drop(self.end_hold(&name, ticket));
            self.events.push(Event::Gone(ticket));
        }
    }
}
