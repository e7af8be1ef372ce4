//! What this process is about to send: the queued work of its sessions, and hints to other
//! processes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::{Instant, now};
use stanchion_core::spi::ProcessId;
use stanchion_core::{Error, ErrorKind, Name, Result, Ticket};
use tokio::sync::{Notify, oneshot};

use super::attempts::{Attempts, LockAttempt, LockRequest};
use super::lock_table::LockTable;
use super::messages::{Batch, ReplySender, SessionId, Unlock};
use super::session_state::SessionState;
use super::timing::{IDLE_TIMEOUT, OPEN_RETRY_INTERVAL};

/// The next action of a session.
#[derive(Debug)]
pub(super) enum NextAction {
    /// Ask whether the connection lives, before a try is sent over it.
    Ask,
    /// Send one statement, or two if the batch also reads requests of other processes.
    Send(Batch),
    Sleep(Instant),
    Close,
}

/// The sessions of this process, from the decision to open one until its end, and what waits to be
/// sent.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    sessions: HashMap<SessionId, SessionState>,
    /// The session that sends new tries; `None` if there is none.
    current: Option<SessionId>,
    /// The last number of a session, an attempt or a request.
    last_number: u64,
    sessions_to_start: Vec<SessionId>,
    /// Why the last session could not be opened, and the earliest time of the next attempt.
    open_failure: Option<(Error, Instant)>,
    pub(super) attempts: Attempts,
    pub(super) lock_table: LockTable,
    hints: Vec<(ProcessId, Ticket)>,
    hint_count: u64,
    /// Sessions that have something to do now.
    sessions_to_wake: Vec<Arc<Notify>>,
}

impl Outbound {
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Returns the current session. If there is none, or its answer is late, that is another one
    /// that is open, or else a new one.
    pub(super) fn current_session(&mut self) -> SessionId {
        let is_late = |id: &SessionId| self.sessions.get(id).is_none_or(|session| session.is_late);
        let serving = self.current.filter(|id| !is_late(id)).or_else(|| self.usable());
        let id = serving.or_else(|| self.unopened()).unwrap_or_else(|| {
            let id = self.next_number();
            self.sessions.insert(id, SessionState::new(now()));
            self.sessions_to_start.push(id);
            id
        });
        self.current = Some(id);
        id
    }

    /// Returns the oldest session that is still being opened.
    fn unopened(&self) -> Option<SessionId> {
        let unopened = self.sessions.iter().filter(|(_, session)| session.pid.is_none() && !session.closing);
        unopened.map(|(id, _)| *id).min()
    }

    /// Returns the oldest session that is open and answers.
    fn usable(&self) -> Option<SessionId> {
        let usable = self.sessions.iter().filter(|(_, session)| session.is_usable());
        usable.map(|(id, _)| *id).min()
    }

    /// Returns the process ids of the open sessions at the server.
    pub(super) fn pids(&self) -> impl Iterator<Item = i32> {
        self.sessions.values().filter_map(|session| session.pid)
    }

    pub(super) fn session(&self, id: SessionId) -> Option<&SessionState> {
        self.sessions.get(&id)
    }

    /// Returns since when every open session was alive.
    pub(super) fn all_alive(&self) -> Option<Instant> {
        self.sessions.values().filter_map(|session| session.last_alive).min()
    }

    /// Returns why no new lock is requested now: the server has no room for it, or the last attempt
    /// to open a session failed a moment ago (C28).
    pub(super) fn refusal(&self, at: Instant) -> Option<Error> {
        self.lock_table.refusal(at).or_else(|| {
            let (failure, until) = self.open_failure.as_ref()?;
            let is_without = self.current.is_none() && self.usable().is_none();
            (is_without && at < *until).then(|| failure.replicate())
        })
    }

    /// Returns why the last session could not be opened, if there is no other. Starts another
    /// attempt if one is due.
    pub(super) fn open_failure(&mut self) -> Option<Error> {
        if self.usable().is_some() {
            return None;
        }
        let (failure, until) = self.open_failure.as_ref()?;
        let (failure, until) = (failure.replicate(), *until);
        if now() >= until {
            self.current_session();
        }
        Some(failure)
    }

    /// Changes the queued work of a session, and wakes it. Does nothing if the session has ended.
    fn queue(&mut self, id: SessionId, add: impl FnOnce(&mut SessionState)) {
        if let Some(session) = self.sessions.get_mut(&id) {
            add(session);
            self.sessions_to_wake.push(Arc::clone(&session.wake));
        }
    }

    pub(super) fn unlock(&mut self, id: SessionId, unlock: Unlock) {
        self.queue(id, |session| session.unlocks.push(unlock));
    }

    /// Requests the unlock of a lock that was never a hold of this process.
    pub(super) fn unlock_unclaimed(&mut self, id: SessionId, name: &Name) {
        self.unlock(id, Unlock { name: name.clone(), ticket: None, is_recorded: false });
    }

    /// Requests a probe of a session; `None` if it has ended.
    pub(super) fn probe(&mut self, id: SessionId) -> Option<oneshot::Receiver<Result<Instant>>> {
        self.sessions.get(&id)?;
        let (reply, answer) = oneshot::channel();
        self.queue(id, |session| session.probes.push(reply));
        Some(answer)
    }

    /// Requests a probe of each of these sessions.
    pub(super) fn probe_all(
        &mut self,
        sessions: &[Option<SessionId>],
    ) -> Vec<(SessionId, oneshot::Receiver<Result<Instant>>)> {
        let ids: BTreeSet<SessionId> = sessions.iter().copied().flatten().collect();
        ids.into_iter().filter_map(|id| Some((id, self.probe(id)?))).collect()
    }

    /// Answers a request of another process to unlock a mutex of a session.
    pub(super) fn answer_force_unlock(&mut self, id: SessionId, request: i64, is_declined: bool) {
        self.queue(id, |SessionState { answers, .. }| {
            let answers = if is_declined { &mut answers.declined } else { &mut answers.accepted };
            answers.push(request);
        });
    }

    /// Requests a try over the current session, together with other requests for the same mutex.
    /// `reads_queue`: the ticket has a place, so the try has to read the queue.
    pub(super) fn try_lock(&mut self, name: &Name, request: LockRequest, reads_queue: bool) {
        if let Some(request) = self.attempts.join(name, request, reads_queue) {
            self.begin_attempt(name, reads_queue, vec![request]);
        }
    }

    /// Begins an attempt for requests of which no other attempt is under way.
    pub(super) fn begin_attempt(&mut self, name: &Name, reads_queue: bool, requests: Vec<LockRequest>) {
        let number = self.next_number();
        self.send_attempt(name, LockAttempt::new(number, reads_queue, requests));
    }

    /// Queues an attempt at the current session.
    pub(super) fn send_attempt(&mut self, name: &Name, attempt: LockAttempt) {
        let (number, current) = (attempt.number, self.current_session());
        self.attempts.insert(name, attempt);
        self.queue(current, |session| session.try_locks.push((name.clone(), number)));
    }

    /// Fails tries that were not carried out, or may not have been.
    pub(super) fn try_locks_failed(
        &mut self,
        try_locks: impl IntoIterator<Item = (Name, u64)>,
        error: &Error,
    ) {
        let unsent = Error::new(ErrorKind::Unavailable, "another try of it was not answered");
        for (name, number) in try_locks {
            self.attempts.fail(&name, number, error, &unsent);
        }
    }

    /// Returns the next action of a session, which is probed at that interval. A session that
    /// closes is no longer the current one.
    pub(super) fn next_action(
        &mut self,
        id: SessionId,
        at: Instant,
        (interval, has_holds): (Duration, bool),
        has_place: impl Fn(Ticket) -> bool,
    ) -> NextAction {
        let is_current = self.current == Some(id);
        let Some(session) = self.sessions.get_mut(&id) else { return NextAction::Close };
        if session.closing {
            return NextAction::Close;
        }
        if session.is_to_be_asked(at) {
            session.try_locks.retain(|(name, number)| self.attempts.has(name, *number));
            if session.is_to_be_asked(at) {
                (session.is_asked, session.last_probe) = (true, Some(at));
                return NextAction::Ask;
            }
        }
        let (mut batch, attempts) = session.next_batch(|name, number| self.attempts.has(name, number));
        let next_probe = session.next_probe(interval).unwrap_or(at);
        if next_probe <= at {
            batch.checks_requests = true;
            session.last_probe = Some(at);
        }
        for (name, number) in attempts {
            batch.try_locks.extend(self.attempts.mark_sent(name, number, &has_place));
        }
        if !batch.is_empty() {
            batch.checks_lock_table =
                !batch.try_locks.is_empty() && self.lock_table.is_check_due(batch.try_locks.len(), at);
            if !batch.unlocks.is_empty() || !batch.try_locks.is_empty() || has_holds {
                session.idle_since = at;
            }
            return NextAction::Send(batch);
        }
        let idle_until = session.idle_since + IDLE_TIMEOUT;
        if has_holds {
            return NextAction::Sleep(next_probe);
        }
        if at < idle_until && is_current {
            return NextAction::Sleep(next_probe.min(idle_until));
        }
        session.closing = true;
        self.current.take_if(|current| *current == id);
        NextAction::Close
    }

    /// Marks a session as open. `sent` is when its opening began.
    pub(super) fn session_opened(&mut self, id: SessionId, pid: i32, sent: Instant) {
        self.open_failure = None;
        if let Some(session) = self.sessions.get_mut(&id) {
            session.pid = Some(pid);
            session.last_alive = Some(sent);
            session.last_probe = Some(sent);
            session.idle_since = sent;
            // It has just answered, however long its opening took.
            session.is_asked = true;
        }
    }

    /// Marks a session as alive: the server answered a statement sent at `sent`, even if it refused
    /// it. If it was late, and the one in its place is not open yet, it serves tries again.
    pub(super) fn session_alive(&mut self, id: SessionId, probes: Vec<ReplySender<Instant>>, sent: Instant) {
        if let Some(session) = self.sessions.get_mut(&id) {
            (session.is_overdue, session.is_late) = (false, false);
            session.last_alive = Some(sent);
            if session.is_usable() {
                self.replace_unopened(id);
            }
        }
        for reply in probes {
            drop(reply.send(Ok(sent)));
        }
    }

    /// Makes a session the current one if that is still being opened, and gives it the tries that
    /// wait for that.
    fn replace_unopened(&mut self, id: SessionId) {
        let current = self.current.and_then(|current| self.sessions.get_mut(&current));
        if let Some(unopened) = current.filter(|current| current.pid.is_none()) {
            let try_locks = std::mem::take(&mut unopened.try_locks);
            self.current = Some(id);
            if !try_locks.is_empty() {
                self.queue(id, |session| session.try_locks.extend(try_locks));
            }
        }
    }

    /// Marks a session as late: its connection may be dead. Another one gets its queued tries that
    /// somebody waits for, which were not sent.
    pub(super) fn session_late(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.is_late = true;
        let mut try_locks = std::mem::take(&mut session.try_locks);
        try_locks.retain(|(name, number)| self.attempts.has(name, *number));
        if !try_locks.is_empty() {
            let current = self.current_session();
            self.queue(current, |session| session.try_locks.extend(try_locks));
        }
    }

    /// Marks a session as overdue: it gets no new requests, and its queued tries fail. Returns when
    /// it was last alive.
    pub(super) fn session_overdue(&mut self, id: SessionId) -> Option<Instant> {
        self.current.take_if(|current| *current == id);
        let session = self.sessions.get_mut(&id)?;
        session.is_overdue = true;
        let (try_locks, last_alive) = (std::mem::take(&mut session.try_locks), session.last_alive);
        let stuck = Error::new(ErrorKind::Unavailable, "the session that was to be asked is stuck");
        self.try_locks_failed(try_locks, &stuck);
        last_alive
    }

    /// Removes a session that has ended at `at`, and returns it.
    pub(super) fn session_closed(
        &mut self,
        id: SessionId,
        error: Option<&Error>,
        at: Instant,
    ) -> Option<SessionState> {
        let session = self.sessions.remove(&id)?;
        if let Some(error) = error.filter(|error| session.pid.is_none() || error.kind().is_final()) {
            self.open_failure = Some((error.replicate(), at + OPEN_RETRY_INTERVAL));
        }
        self.current.take_if(|current| *current == id);
        Some(session)
    }

    pub(super) fn add_hint(&mut self, process: ProcessId, ticket: Ticket) {
        self.hints.push((process, ticket));
        self.hint_count += 1;
    }

    /// Returns the number of hints to other processes so far.
    pub(super) fn hint_count(&self) -> u64 {
        self.hint_count
    }

    pub(super) fn has_hints(&self) -> bool {
        !self.hints.is_empty()
    }

    /// Takes the hints to send, and returns the number of hints so far.
    pub(super) fn take_hints(&mut self) -> (Vec<(ProcessId, Ticket)>, u64) {
        (std::mem::take(&mut self.hints), self.hint_count)
    }

    pub(super) fn has_sessions_to_start(&self) -> bool {
        !self.sessions_to_start.is_empty()
    }

    pub(super) fn take_sessions_to_start(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.sessions_to_start)
    }

    pub(super) fn take_sessions_to_wake(&mut self) -> Vec<Arc<Notify>> {
        std::mem::take(&mut self.sessions_to_wake)
    }
}
