//! The state of session mode, shared by callers, the engine and the session tasks.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stanchion_core::clock::{Instant, now};
use stanchion_core::spi::{ProcessId, Reports};
use stanchion_core::{Error, Name, Ticket, Ttl};
use tokio::sync::{Notify, watch};

use super::lock_table::LockTable;
use super::mutex_state::{MutexState, QueuePlace, TransactionTurn};
use super::queue::{LeaveRequest, LeftPlace};
use super::session_state::{SessionId, SessionState};
use super::unlock::PendingUnlock;

/// The lock sessions of this process: callers add requests here, and the session tasks take and send them.
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

/// A report to the engine, delivered once the state is unlocked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Wake(Ticket),
    Gone(Ticket),
}

/// The state that callers, the engine and the session tasks share.
#[derive(Debug)]
pub(super) struct SharedState {
    pub(super) ttl: Ttl,
    /// The process id under which the places of this process are stored.
    pub(super) process: ProcessId,
    pub(super) mutexes: HashMap<Name, MutexState>,
    /// Refused tickets, and the end of each refusal.
    pub(super) tombstones: HashMap<Ticket, Instant>,
    /// Holds that are being unlocked, with the callers that wait for it.
    pub(super) pending_unlocks: HashMap<Ticket, PendingUnlock>,
    /// Tickets whose session ended before it answered their unlock. Until the given time the server may still
    /// keep the lock.
    pub(super) unlocks_in_doubt: HashMap<Ticket, Instant>,
    /// Expired tombstones are removed when the number of tombstones reaches this.
    pub(super) tombstone_purge_threshold: usize,
    /// Tickets that have a place in the queue, or may have one.
    pub(super) places: HashMap<Ticket, QueuePlace>,
    /// For each name, the tickets that the last poll found ready and that this process does not know.
    pub(super) orphaned_places: HashMap<Name, Vec<Ticket>>,
    /// The turns of users' transactions. A turn is not a hold of a session.
    pub(super) turns: HashMap<Ticket, TransactionTurn>,
    /// Places in the queue to leave.
    pub(super) leave_requests: Vec<LeaveRequest>,
    /// Tickets whose places are being left by a request under way.
    pub(super) leaving_now: HashSet<Ticket>,
    /// Places that were left recently, oldest first.
    pub(super) recently_left: VecDeque<LeftPlace>,
    /// Hints to other processes.
    pub(super) hints: Vec<(ProcessId, Ticket)>,
    /// The number of hints to other processes so far.
    pub(super) hint_count: u64,
    pub(super) sessions: HashMap<SessionId, SessionState>,
    /// The session that sends new tries; `None` if there is none.
    pub(super) current: Option<SessionId>,
    pub(super) last_number: u64,
    pub(super) sessions_to_start: Vec<SessionId>,
    /// The earliest time at which a lease may expire.
    pub(super) next_expiry: Option<Instant>,
    /// Why the last session could not be opened, and the earliest time of the next attempt.
    pub(super) open_failure: Option<(Error, Instant)>,
    pub(super) lock_table: LockTable,
    pub(super) events: Vec<Event>,
    pub(super) reports: Option<Reports>,
    /// Holds whose record is being written.
    pub(super) records_being_written: HashSet<Ticket>,
    /// Ended holds that may still have a record.
    pub(super) records_to_remove: Vec<(Name, Ticket)>,
    /// Ended holds whose record another process may take for the current hold, until its removal was tried.
    pub(super) stale_records: HashSet<(Name, Ticket)>,
    /// There may be holds that are not recorded yet.
    pub(super) has_unrecorded_holds: bool,
    schedule_changed: bool,
    /// Sessions that have something to do now.
    pub(super) sessions_to_wake: Vec<Arc<Notify>>,
}

impl LockSessions {
    pub(super) fn new(ttl: Ttl, request_timeout: Duration, process: ProcessId) -> Self {
        let state = SharedState {
            ttl,
            process,
            mutexes: HashMap::new(),
            tombstones: HashMap::new(),
            pending_unlocks: HashMap::new(),
            unlocks_in_doubt: HashMap::new(),
            tombstone_purge_threshold: 0,
            places: HashMap::new(),
            orphaned_places: HashMap::new(),
            turns: HashMap::new(),
            leave_requests: Vec::new(),
            leaving_now: HashSet::new(),
            recently_left: VecDeque::new(),
            hints: Vec::new(),
            hint_count: 0,
            sessions: HashMap::new(),
            current: None,
            last_number: 0,
            sessions_to_start: Vec::new(),
            next_expiry: None,
            open_failure: None,
            lock_table: LockTable::default(),
            events: Vec::new(),
            reports: None,
            records_being_written: HashSet::new(),
            records_to_remove: Vec::new(),
            stale_records: HashSet::new(),
            has_unrecorded_holds: false,
            schedule_changed: false,
            sessions_to_wake: Vec::new(),
        };
        let request_timeout = ttl.request_limit(request_timeout);
        Self {
            request_timeout,
            state: Mutex::new(state),
            schedule_changed: Notify::new(),
            leave_requests_added: Notify::new(),
            hints_added: Notify::new(),
            holds_granted: Notify::new(),
            record_removals_added: Notify::new(),
            record_removals_tried: Notify::new(),
            hints_sent: watch::Sender::new(0),
        }
    }

    /// Runs `work` on the state, and notifies tasks and the engine after unlocking it: a session that was
    /// woken earlier would find the state locked, and sleep once more.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut SharedState) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let done = work(&mut state);
        let (schedule_changed, sessions_to_wake) =
            (std::mem::take(&mut state.schedule_changed), std::mem::take(&mut state.sessions_to_wake));
        let (leave_requests_added, hints_added) = (!state.leave_requests.is_empty(), !state.hints.is_empty());
        let (holds_granted, record_removals_added) =
            (std::mem::take(&mut state.has_unrecorded_holds), !state.records_to_remove.is_empty());
        let reported = if state.events.is_empty() {
            None
        } else {
            Some((std::mem::take(&mut state.events), state.reports.clone()))
        };
        drop(state);
        for session in sessions_to_wake {
            session.notify_one();
        }
        let all = [
            (schedule_changed, &self.schedule_changed),
            (leave_requests_added, &self.leave_requests_added),
            (hints_added, &self.hints_added),
            (holds_granted, &self.holds_granted),
            (record_removals_added, &self.record_removals_added),
        ];
        for (is_due, notify) in all {
            if is_due {
                notify.notify_one();
            }
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

impl SharedState {
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn reschedule(&mut self) {
        self.schedule_changed = true;
    }

    /// Clears the notification of a change that has been handled.
    pub(super) fn clear_schedule_change(&mut self) {
        self.schedule_changed = false;
    }

    /// Returns the current session, and starts one if there is none.
    pub(super) fn current_session(&mut self) -> SessionId {
        match self.current {
            Some(id) if self.sessions.contains_key(&id) => id,
            _ => {
                let id = self.next_number();
                self.sessions.insert(id, SessionState::new(now()));
                self.sessions_to_start.push(id);
                self.reschedule();
                self.current = Some(id);
                id
            }
        }
    }

    /// Returns the number of open sessions.
    pub(super) fn open_sessions(&self) -> usize {
        self.sessions.values().filter(|session| session.pid.is_some()).count()
    }

    /// Removes the state of a mutex that is not held and has no request under way.
    pub(super) fn remove_if_idle(&mut self, name: &Name) {
        if self.mutexes.get(name).is_some_and(MutexState::is_idle) {
            self.mutexes.remove(name);
        }
    }

    /// Schedules a check for expired leases at `at`, unless an earlier one is scheduled.
    pub(super) fn schedule_expiry(&mut self, at: Instant) {
        if self.next_expiry.is_none_or(|next_expiry| at < next_expiry) {
            self.next_expiry = Some(at);
            self.reschedule();
        }
    }

    /// Refuses a ticket from now until `until`.
    pub(super) fn add_tombstone(&mut self, ticket: Ticket, until: Instant) {
        if self.tombstones.len() >= self.tombstone_purge_threshold {
            let at = now();
            self.tombstones.retain(|_, until| at < *until);
            self.tombstone_purge_threshold = (2 * self.tombstones.len()).max(64);
        }
        self.tombstones.insert(ticket, until);
    }

    pub(super) fn has_tombstone(&self, ticket: Ticket, at: Instant) -> bool {
        self.tombstones.get(&ticket).is_some_and(|until| at < *until)
    }
}
