//! The lock around the state of session mode, shared by callers, the engine and the session tasks.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stanchion_core::Ttl;
use stanchion_core::spi::ProcessId;
use tokio::sync::{Notify, watch};

use super::deferred_wakers::with_deferred_wakers;
use super::state::{Event, SharedState};

/// The lock sessions of this process: callers add requests here, and the session tasks take and
/// send them.
#[derive(Debug)]
pub(super) struct LockSessions {
    /// Timeout of a request.
    pub(super) request_timeout: Duration,
    state: Mutex<SharedState>,
    /// Notified when a session is to be started, or when the next timer is earlier than before.
    pub(super) schedule_changed: Notify,
    /// Notified when there are places in the queue to leave.
    pub(super) leave_requests_added: Notify,
    /// Notified when there are hints to send.
    pub(super) hints_added: Notify,
    /// Notified when there are holds that are not recorded yet.
    pub(super) holds_granted: Notify,
    /// Notified when there are records of ended holds to remove.
    pub(super) record_removals_added: Notify,
    /// Notified after each attempt to remove such records.
    pub(super) record_removals_tried: Notify,
    /// The number of hints that were sent, or given up, so far.
    pub(super) hints_sent: watch::Sender<u64>,
}

impl LockSessions {
    pub(super) fn new(ttl: Ttl, request_timeout: Duration, process: ProcessId) -> Self {
        Self {
            request_timeout: ttl.request_limit(request_timeout),
            state: Mutex::new(SharedState::new(ttl, process)),
            schedule_changed: Notify::new(),
            leave_requests_added: Notify::new(),
            hints_added: Notify::new(),
            holds_granted: Notify::new(),
            record_removals_added: Notify::new(),
            record_removals_tried: Notify::new(),
            hints_sent: watch::Sender::new(0),
        }
    }

    /// Runs `work` on the state, and notifies tasks and the engine after unlocking it: a session
    /// that was woken earlier would find the state locked, and sleep once more.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut SharedState) -> R) -> R {
        let (done, sessions_to_wake, due, reported) = with_deferred_wakers(|| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let done = work(&mut state);
            let SharedState { holds, places, outbound, .. } = &mut *state;
            let sessions_to_wake = outbound.take_sessions_to_wake();
            let is_earlier = holds.take_is_earlier();
            let due = [
                (is_earlier || outbound.has_sessions_to_start(), &self.schedule_changed),
                (!places.leaving.is_empty(), &self.leave_requests_added),
                (outbound.has_hints(), &self.hints_added),
                (holds.take_has_unrecorded(), &self.holds_granted),
                (holds.records.has_removals(), &self.record_removals_added),
            ];
            let reported = if state.events.is_empty() {
                None
            } else {
                Some((std::mem::take(&mut state.events), state.reports.clone()))
            };
            drop(state);
            (done, sessions_to_wake, due, reported)
        });
        for session in sessions_to_wake {
            session.notify_one();
        }
        for (_, notify) in due.into_iter().filter(|(is_due, _)| *is_due) {
            notify.notify_one();
        }
        if let Some((events, Some(reports))) = reported {
            for event in events {
                match event {
                    Event::Wake(ticket) => reports.wake(ticket),
                    Event::Gone(ticket) => reports.gone(ticket),
                }
            }
        }
        done
    }
}
