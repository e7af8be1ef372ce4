//! What sessions report: the answers to their statements, and their end.

use stanchion_core::clock::Instant;
use stanchion_core::spi::Kept;
use stanchion_core::{Error, ErrorKind};

use super::messages::{Batch, BatchAnswer, ForceUnlockRequest, SessionId, TryLock};
use super::reply::fail_all;
use super::session_state::SessionState;
use super::state::{Event, SharedState};
use super::timing::idle_session_timeout;

impl SharedState {
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
            self.outbound.lock_table.update(lock_table, at);
        }
        for (process, ticket) in answer.next_waiters {
            if process == self.process {
                self.events.push(Event::Wake(ticket));
            } else {
                self.outbound.add_hint(process, ticket);
            }
        }
        for unlock in &batch.unlocks {
            if unlock.ticket.is_some_and(|ticket| answer.still_recorded.contains(&ticket)) {
                self.holds.records.remove_later(unlock);
            }
        }
        for (unlock, unlocked) in batch.unlocks.iter().zip(answer.unlocked) {
            self.holds.unlocks.answered(unlock, if unlocked { Kept::Yes } else { Kept::No });
        }
        for (TryLock { name, number, .. }, answer) in batch.try_locks.into_iter().zip(answer.try_answers) {
            self.try_lock_answered(id, &name, number, answer, sent);
        }
        self.outbound.session_alive(id, batch.probes, sent);
    }

    /// Fails a batch that was not carried out, or may not have been. `unlocked`: the session now
    /// holds none of its names.
    pub(super) fn batch_failed(&mut self, mut batch: Batch, error: &Error, unlocked: bool) {
        if unlocked {
            for unlock in batch.unlocks.drain(..) {
                self.holds.records.remove_later(&unlock);
                self.holds.unlocks.answered(&unlock, Kept::Yes);
            }
        }
        self.batch_in_doubt(&mut batch, error);
    }

    /// Replies to the callers of a statement that its outcome is unknown. The answer may still
    /// come.
    fn batch_in_doubt(&mut self, batch: &mut Batch, error: &Error) {
        for ticket in batch.unlocks.iter().filter_map(|unlock| unlock.ticket) {
            self.holds.unlocks.reply_in_doubt(ticket, error);
        }
        let try_locks = batch.try_locks.iter().map(|sent| (sent.name.clone(), sent.number));
        self.outbound.try_locks_failed(try_locks, error);
        fail_all(std::mem::take(&mut batch.probes), error);
    }

    /// Marks a session whose statement is overdue. The callers of the statement get their reply,
    /// the session keeps its holds until their leases may have ended, and it gets no new requests.
    ///
    /// Returns the time from which the session can keep no hold; `None` if it has none now.
    pub(super) fn statement_overdue(
        &mut self,
        id: SessionId,
        batch: &mut Batch,
        error: &Error,
    ) -> Option<Instant> {
        self.batch_in_doubt(batch, error);
        let alive = self.outbound.session_overdue(id)?;
        self.holds.any_of(id).then(|| alive + self.ttl.get())
    }

    /// Removes a session that has ended, with all its holds.
    pub(super) fn session_closed(&mut self, id: SessionId, error: Option<Error>, at: Instant) {
        let Some(session) = self.outbound.session_closed(id, error.as_ref(), at) else { return };
        let SessionState { unlocks, probes, try_locks, last_alive, .. } = session;
        if error.is_some() {
            self.places.leaving.repeat(last_alive.unwrap_or(at));
        }
        self.events.extend(self.holds.session_closed(id).into_iter().map(Event::Gone));
        let error = error.unwrap_or_else(|| Error::new(ErrorKind::Unavailable, "the session was closed"));
        self.holds.unlocks.session_closed(id, &error, at, at + idle_session_timeout(self.ttl));
        self.outbound.try_locks_failed(try_locks, &error);
        self.batch_failed(Batch { unlocks, probes, ..Batch::default() }, &error, false);
    }

    /// Applies the answer to a probe that was sent at `sent`.
    pub(super) fn probe_answered(
        &mut self,
        id: SessionId,
        batch: Batch,
        requests: &[ForceUnlockRequest],
        sent: Instant,
    ) {
        self.outbound.session_alive(id, batch.probes, sent);
        for request in requests {
            self.force_unlock(id, request);
        }
    }
}
