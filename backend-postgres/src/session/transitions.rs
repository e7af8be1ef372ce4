//! Transitions of the shared state that sessions cause.

use stanchion_core::clock::Instant;
use stanchion_core::spi::Kept;
use stanchion_core::{Error, ErrorKind, Name};

use super::connection::BatchAnswer;
use super::lock_sessions::{Event, SharedState};
use super::session_state::{Batch, ForceUnlockRequest, SessionId, TryLock};
use super::timers::{IDLE_TIMEOUT, OPEN_RETRY_INTERVAL};

/// The next action of a session.
#[derive(Debug)]
pub(super) enum NextAction {
    /// Send one statement, or two if the batch also reads requests of other processes.
    Send(Batch),
    Sleep(Instant),
    Close,
}

impl SharedState {
    /// Returns the next action of a session. A session that closes is no longer the current one.
    pub(super) fn next_action(&mut self, id: SessionId, at: Instant) -> NextAction {
        let interval = self.probe_interval(id);
        let is_current = self.current == Some(id);
        let Some(session) = self.sessions.get_mut(&id) else { return NextAction::Close };
        if session.closing {
            return NextAction::Close;
        }
        let (mut batch, attempts) = session.next_batch();
        let next_probe = session.next_probe(interval).unwrap_or(at);
        if next_probe <= at {
            batch.checks_requests = true;
            session.last_probe = Some(at);
        }
        for (name, number) in attempts {
            batch.try_locks.extend(self.mark_sent(name, number));
        }
        let Some(session) = self.sessions.get_mut(&id) else { return NextAction::Close };
        if !batch.is_empty() {
            batch.checks_lock_table =
                !batch.try_locks.is_empty() && self.lock_table.is_check_due(batch.try_locks.len(), at);
            if !batch.unlocks.is_empty() || !batch.try_locks.is_empty() || session.holds > 0 {
                session.idle_since = at;
            }
            return NextAction::Send(batch);
        }
        let idle_until = session.idle_since + IDLE_TIMEOUT;
        if session.holds > 0 {
            return NextAction::Sleep(next_probe);
        }
        if at < idle_until && is_current {
            return NextAction::Sleep(next_probe.min(idle_until));
        }
        session.closing = true;
        self.current.take_if(|current| *current == id);
        NextAction::Close
    }

    /// Marks the attempt as sent; `None` if no request wants it any more.
    fn mark_sent(&mut self, name: Name, number: u64) -> Option<TryLock> {
        let mutex = self.mutexes.get_mut(&name)?;
        let attempt = mutex.attempt.as_mut().filter(|attempt| attempt.number == number)?;
        attempt.sent = true;
        let tickets = || attempt.requests.iter().map(|request| request.acquisition.ticket);
        let has_place = |ticket: &_| self.places.get(ticket).is_some_and(|place| place.epoch.is_some());
        let ticket = tickets().find(has_place).or_else(|| tickets().next())?;
        Some(TryLock { name, number, ticket, reads_queue: attempt.reads_queue })
    }

    /// Marks a session as open. `sent` is when its opening began.
    pub(super) fn session_opened(&mut self, id: SessionId, pid: i32, sent: Instant) {
        self.open_failure = None;
        if let Some(session) = self.sessions.get_mut(&id) {
            session.pid = Some(pid);
            session.last_alive = Some(sent);
            session.last_probe = Some(sent);
            session.idle_since = sent;
        }
    }

    /// Applies the answer to a batch that was sent at `sent`.
    pub(super) fn batch_answered(
        &mut self,
        id: SessionId,
        batch: Batch,
        answer: BatchAnswer,
        sent: Instant,
        at: Instant,
    ) {
        if let Some(lock_table) = answer.lock_table {
            self.lock_table.update(lock_table, at);
        }
        for (process, ticket) in answer.next_waiters {
            if process == self.process {
                self.events.push(Event::Wake(ticket));
            } else {
                self.hints.push((process, ticket));
                self.hint_count += 1;
            }
        }
        for unlock in &batch.unlocks {
            if unlock.ticket.is_some_and(|ticket| answer.still_recorded.contains(&ticket)) {
                self.remove_record_later(unlock);
            }
        }
        for (unlock, unlocked) in batch.unlocks.into_iter().zip(answer.unlocked) {
            self.unlock_answered(&unlock, &Ok(if unlocked { Kept::Yes } else { Kept::No }));
        }
        for (TryLock { name, number, .. }, answer) in batch.try_locks.into_iter().zip(answer.try_answers) {
            self.try_lock_answered(id, &name, number, answer, sent);
            self.remove_if_idle(&name);
        }
        let rest = Batch { probes: batch.probes, ..Batch::default() };
        self.session_alive(id, rest, sent);
    }

    fn mark_alive(&mut self, id: SessionId, sent: Instant) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.is_overdue = false;
            session.last_alive = Some(sent);
        }
    }

    /// Fails a batch that was not carried out, or may not have been. `unlocked`: the session now holds none
    /// of its names.
    pub(super) fn batch_failed(&mut self, batch: Batch, error: &Error, unlocked: bool) {
        for unlock in batch.unlocks {
            if unlocked {
                self.remove_record_later(&unlock);
                self.unlock_answered(&unlock, &Ok(Kept::Yes));
            } else {
                self.reply_in_doubt(&unlock, error);
            }
        }
        self.try_locks_failed(batch.try_locks.into_iter().map(|sent| (sent.name, sent.number)), error);
        for reply in batch.probes {
            drop(reply.send(Err(error.replicate())));
        }
    }

    /// Tells the callers of an overdue statement that its outcome is unknown; the answer may still come.
    fn batch_in_doubt(&mut self, batch: &mut Batch, error: &Error) {
        for unlock in &batch.unlocks {
            self.reply_in_doubt(unlock, error);
        }
        let try_locks: Vec<_> = batch.try_locks.iter().map(|sent| (sent.name.clone(), sent.number)).collect();
        self.try_locks_failed(try_locks, error);
        for reply in std::mem::take(&mut batch.probes) {
            drop(reply.send(Err(error.replicate())));
        }
    }

    /// Marks a session whose statement is overdue. The callers of the statement are told, the session keeps
    /// its holds until their leases may have ended, and it gets no new requests.
    ///
    /// Returns the time from which the session can keep no hold; `None` if it has none now.
    pub(super) fn statement_overdue(
        &mut self,
        id: SessionId,
        batch: &mut Batch,
        error: &Error,
    ) -> Option<Instant> {
        self.batch_in_doubt(batch, error);
        self.current.take_if(|current| *current == id);
        let ttl = self.ttl.get();
        let session = self.sessions.get_mut(&id)?;
        session.is_overdue = true;
        let try_locks = std::mem::take(&mut session.try_locks);
        let until = session.last_alive.filter(|_| session.holds > 0).map(|alive| alive + ttl);
        self.try_locks_failed(
            try_locks,
            &Error::new(ErrorKind::Unavailable, "the session that was to be asked is stuck"),
        );
        until
    }

    /// Removes a session that has ended, with all its holds.
    pub(super) fn session_closed(&mut self, id: SessionId, error: Option<Error>, at: Instant) {
        let Some(session) = self.sessions.remove(&id) else { return };
        if let Some(error) = &error {
            if session.pid.is_none() || error.kind().is_final() {
                self.open_failure = Some((error.replicate(), at + OPEN_RETRY_INTERVAL));
            }
            self.repeat_leave_requests(session.last_alive.unwrap_or(at));
        }
        self.current.take_if(|current| *current == id);
        for mutex in self.mutexes.values_mut() {
            if let Some(held) = mutex.held.take_if(|held| held.session == id) {
                self.events.push(Event::Gone(held.ticket));
            }
        }
        let error = error.unwrap_or_else(|| Error::new(ErrorKind::Unavailable, "the session was closed"));
        self.mark_unlocks_in_doubt(id, &error, at);
        self.try_locks_failed(session.try_locks, &error);
        let rest = Batch { unlocks: session.unlocks, probes: session.probes, ..Batch::default() };
        self.batch_failed(rest, &error, false);
        self.mutexes.retain(|_, mutex| !mutex.is_idle());
    }

    /// Applies the answer to a probe that was sent at `sent`.
    pub(super) fn probe_answered(
        &mut self,
        id: SessionId,
        batch: Batch,
        requests: &[ForceUnlockRequest],
        sent: Instant,
    ) {
        self.session_alive(id, batch, sent);
        for request in requests {
            self.force_unlock(id, request);
        }
    }

    /// Marks a session as alive: the server answered a statement sent at `sent`, even if it refused it.
    pub(super) fn session_alive(&mut self, id: SessionId, batch: Batch, sent: Instant) {
        self.mark_alive(id, sent);
        for reply in batch.probes {
            drop(reply.send(Ok(sent)));
        }
    }
}
