//! Unlocks that the server has not answered.

use std::collections::HashMap;

use stanchion_core::clock::Instant;
use stanchion_core::spi::Kept;
use stanchion_core::{Error, Result, Ticket};
use tokio::sync::oneshot;

use super::messages::{ReplySender, SessionId, Unlock};
use super::reply::fail_all;

/// The unlocks under way, and those whose outcome is unknown.
#[derive(Debug, Default)]
pub(super) struct Unlocks {
    pending: HashMap<Ticket, PendingUnlock>,
    /// Tickets whose session ended before it answered their unlock. Until the given time the server
    /// may still keep the lock.
    in_doubt: HashMap<Ticket, Instant>,
}

/// A hold that is being unlocked.
#[derive(Debug)]
struct PendingUnlock {
    session: SessionId,
    /// The callers that wait for the unlock.
    replies: Vec<ReplySender<Kept>>,
}

impl Unlocks {
    pub(super) fn begin(&mut self, ticket: Ticket, session: SessionId) {
        self.pending.insert(ticket, PendingUnlock { session, replies: Vec::new() });
    }

    /// Has a caller wait for the unlock of a ticket; `None` if none is under way. Also returns the
    /// session of the unlock.
    pub(super) fn wait(&mut self, ticket: Ticket) -> Option<(SessionId, oneshot::Receiver<Result<Kept>>)> {
        let pending = self.pending.get_mut(&ticket)?;
        let (reply, answer) = oneshot::channel();
        pending.replies.push(reply);
        Some((pending.session, answer))
    }

    /// Applies the answer to an unlock.
    pub(super) fn answered(&mut self, unlock: &Unlock, answer: Kept) {
        let pending = unlock.ticket.and_then(|ticket| self.pending.remove(&ticket));
        for reply in pending.into_iter().flat_map(|pending| pending.replies) {
            // A caller that has gone has no use for its answer.
            drop(reply.send(Ok(answer)));
        }
    }

    /// Replies to the callers of an unlock that its outcome is unknown. The answer may still come.
    pub(super) fn reply_in_doubt(&mut self, ticket: Ticket, error: &Error) {
        if let Some(pending) = self.pending.get_mut(&ticket) {
            fail_all(std::mem::take(&mut pending.replies), error);
        }
    }

    /// Marks the unanswered unlocks of a session that has ended at `at`. Whether the server carried
    /// them out is unknown until `until`, when it has surely ended the session, too.
    pub(super) fn session_closed(&mut self, id: SessionId, error: &Error, at: Instant, until: Instant) {
        self.in_doubt.retain(|_, until| at < *until);
        for (ticket, pending) in self.pending.extract_if(|_, pending| pending.session == id) {
            self.in_doubt.insert(ticket, until);
            fail_all(pending.replies, error);
        }
    }

    /// Returns whether the server may still keep the lock of a ticket whose session ended while it
    /// unlocked.
    pub(super) fn is_in_doubt(&self, ticket: Ticket, at: Instant) -> bool {
        self.in_doubt.get(&ticket).is_some_and(|until| at < *until)
    }

    #[cfg(test)]
    pub(super) fn none_is_pending(&self) -> bool {
        self.pending.is_empty()
    }
}
