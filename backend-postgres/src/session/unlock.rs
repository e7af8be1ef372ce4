//! Unlocking: releases, cancels and forced unlocks.

use std::sync::Arc;

use stanchion_core::clock::Instant;
use stanchion_core::spi::{Cancel, Kept, Release};
use stanchion_core::{Error, ErrorKind, Name, Result, Ticket};
use tokio::sync::oneshot;

use super::connection::idle_session_timeout;
use super::lock_sessions::{Event, SharedState};
use super::mutex_state::ReplySender;
use super::requests::Reply;
use super::session_state::{ForceUnlockRequest, SessionId, Unlock};

/// A hold that is being unlocked.
#[derive(Debug)]
pub(super) struct PendingUnlock {
    session: SessionId,
    /// The callers that wait for the unlock.
    replies: Vec<ReplySender<Kept>>,
}

fn no_answer() -> Error {
    Error::new(ErrorKind::Unknown, "the session that keeps the mutex does not answer")
}

impl SharedState {
    /// Requests the unlock of a lock that was never a hold of this process.
    pub(super) fn unlock_unclaimed(&mut self, session: SessionId, name: &Name) {
        self.send_unlock(session, Unlock { name: name.clone(), ticket: None, is_recorded: false });
    }

    fn send_unlock(&mut self, session: SessionId, unlock: Unlock) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.unlocks.push(unlock);
            self.sessions_to_wake.push(Arc::clone(&session.wake));
        }
    }

    /// Requests the end of a hold; `None` if there is none. If its unlock is under way, the reply is that
    /// unlock's.
    pub(super) fn end_hold(
        &mut self,
        name: &Name,
        ticket: Ticket,
    ) -> Option<oneshot::Receiver<Result<Kept>>> {
        let (reply, answer) = oneshot::channel();
        if let Some(pending) = self.pending_unlocks.get_mut(&ticket) {
            pending.replies.push(reply);
            let session = pending.session;
            self.reply_if_overdue(session, ticket);
            return Some(answer);
        }
        let mutex = self.mutexes.get_mut(name)?;
        let held = mutex.held.take_if(|held| held.ticket == ticket)?;
        if let Some(session) = self.sessions.get_mut(&held.session) {
            session.holds -= 1;
            self.pending_unlocks
                .insert(ticket, PendingUnlock { session: held.session, replies: vec![reply] });
        }
        let unlock = Unlock { name: name.clone(), ticket: Some(ticket), is_recorded: held.is_recorded };
        if self.records_being_written.contains(&ticket) {
            self.stale_records.insert((name.clone(), ticket));
        }
        self.send_unlock(held.session, unlock);
        self.reply_if_overdue(held.session, ticket);
        self.remove_if_idle(name);
        Some(answer)
    }

    /// Applies the answer to an unlock, or the end of its session.
    pub(super) fn unlock_answered(&mut self, unlock: &Unlock, answer: &Result<Kept>) {
        if let Some(pending) = unlock.ticket.and_then(|ticket| self.pending_unlocks.remove(&ticket)) {
            reply_to_all(pending.replies, answer);
        }
        self.remove_if_idle(&unlock.name);
    }

    /// Marks the unanswered unlocks of a session that has ended at `at`. Whether the server carried them out
    /// is unknown until it has surely ended the session, too.
    pub(super) fn mark_unlocks_in_doubt(&mut self, id: SessionId, error: &Error, at: Instant) {
        self.unlocks_in_doubt.retain(|_, until| at < *until);
        let until = at + idle_session_timeout(self.ttl);
        for (ticket, pending) in self.pending_unlocks.extract_if(|_, pending| pending.session == id) {
            self.unlocks_in_doubt.insert(ticket, until);
            reply_to_all(pending.replies, &Err(error.replicate()));
        }
    }

    /// Replies to callers at once if the session is overdue: waiting for it would delay what they want of
    /// other sessions.
    fn reply_if_overdue(&mut self, id: SessionId, ticket: Ticket) {
        if self.sessions.get(&id).is_some_and(|session| session.is_overdue)
            && let Some(pending) = self.pending_unlocks.get_mut(&ticket)
        {
            reply_to_all(std::mem::take(&mut pending.replies), &Err(no_answer()));
        }
    }

    /// Tells the callers of an unlock that its outcome is unknown.
    pub(super) fn reply_in_doubt(&mut self, unlock: &Unlock, error: &Error) {
        if let Some(pending) = unlock.ticket.and_then(|ticket| self.pending_unlocks.get_mut(&ticket)) {
            reply_to_all(std::mem::take(&mut pending.replies), &Err(error.replicate()));
        }
    }

    pub(super) fn release(&mut self, ask: &Release, at: Instant) -> Reply<Kept> {
        if let Some(tombstone) = ask.tombstone {
            self.add_tombstone(ask.ticket, at + tombstone.get());
        }
        match self.end_hold(&ask.object.name, ask.ticket) {
            Some(answer) => Reply::Later(0, answer),
            None if self.unlocks_in_doubt.get(&ask.ticket).is_some_and(|until| at < *until) => {
                Reply::Now(Err(no_answer()))
            }
            None => Reply::Now(Ok(Kept::No)),
        }
    }

    pub(super) fn cancel(&mut self, ask: &Cancel, at: Instant) -> Reply<Kept> {
        let name = &ask.object.name;
        // Needed also if the ticket is found: a claim of it may be waiting for the answer to a probe.
        self.add_tombstone(ask.ticket, at + ask.lease.get());
        if let Some(answer) = self.end_hold(name, ask.ticket) {
            return Reply::Later(0, answer);
        }
        if let Some(mutex) = self.mutexes.get_mut(name) {
            for request in mutex.requests().filter(|request| request.acquisition.ticket == ask.ticket) {
                request.cancelled = true;
            }
        }
        Reply::Now(Ok(Kept::No))
    }

    /// Carries out a request to unlock a mutex by force. It is accepted once the lock is unlocked, and
    /// declined if the mutex was granted after the request.
    pub(super) fn force_unlock(&mut self, id: SessionId, request: &ForceUnlockRequest) {
        let name = Name::new(&request.name).ok();
        let held = name.as_ref().and_then(|name| self.mutexes.get(name)?.held.as_ref());
        let matching =
            held.filter(|held| held.session == id && held.token.get() <= request.token.unsigned_abs());
        let is_later = held.is_some() && matching.is_none();
        if let (Some(name), Some(ticket)) = (&name, matching.map(|held| held.ticket)) {
            drop(self.end_hold(name, ticket));
            self.events.push(Event::Gone(ticket));
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            let answers =
                if is_later { &mut session.answers.declined } else { &mut session.answers.accepted };
            answers.push(request.id);
            self.sessions_to_wake.push(Arc::clone(&session.wake));
        }
    }
}

fn reply_to_all(replies: Vec<ReplySender<Kept>>, answer: &Result<Kept>) {
    for reply in replies {
        // A caller that has gone has no use for its answer.
        drop(reply.send(answer.as_ref().copied().map_err(Error::replicate)));
    }
}
