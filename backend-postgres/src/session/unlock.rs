//! Unlocking: releases, cancels and forced unlocks.

use stanchion_core::clock::{Instant, now};
use stanchion_core::spi::{Cancel, Force, Kept, Release};
use stanchion_core::{Error, ErrorKind, Holder, Name, Result, Ticket, Ttl};
use tokio::sync::oneshot;

use super::messages::{ForceUnlockRequest, SessionId};
use super::reply::Reply;
use super::state::{Event, SharedState};

fn no_answer() -> Error {
    Error::new(ErrorKind::Unknown, "the session that keeps the mutex does not answer")
}

impl SharedState {
    /// Requests the end of a hold; `None` if there is none. If its unlock is under way, the reply
    /// is that unlock's. A caller gets its reply at once if the session is overdue: waiting for it
    /// would delay what the caller wants of other sessions.
    pub(super) fn end_hold(
        &mut self,
        name: &Name,
        ticket: Ticket,
    ) -> Option<oneshot::Receiver<Result<Kept>>> {
        let ended = self.holds.end(name, ticket)?;
        if let Some(unlock) = ended.unlock {
            self.outbound.unlock(ended.session, unlock);
        }
        if self.outbound.session(ended.session).is_some_and(|session| session.is_overdue) {
            self.holds.unlocks.reply_in_doubt(ticket, &no_answer());
        }
        Some(ended.answer)
    }

    pub(super) fn release(&mut self, ask: &Release, at: Instant) -> Reply<Kept> {
        if let Some(tombstone) = ask.tombstone {
            self.holds.tombstones.add(ask.ticket, at + tombstone.get());
        }
        match self.end_hold(&ask.object.name, ask.ticket) {
            Some(answer) => Reply::Later(0, answer),
            None if self.holds.unlocks.is_in_doubt(ask.ticket, at) => Reply::Now(Err(no_answer())),
            None => Reply::Now(Ok(Kept::No)),
        }
    }

    pub(super) fn cancel(&mut self, ask: &Cancel, at: Instant) -> Reply<Kept> {
        let name = &ask.object.name;
        // Needed also if the ticket is found: a claim of it may be waiting for the answer to a
        // probe.
        self.holds.tombstones.add(ask.ticket, at + ask.tombstone.unwrap_or(Ttl::DEFAULT).get());
        // Also if the ticket is found: another try of it may wait behind the unlock.
        self.outbound.attempts.cancel(name, ask.ticket);
        match self.end_hold(name, ask.ticket) {
            Some(answer) => Reply::Later(0, answer),
            None => Reply::Now(Ok(Kept::No)),
        }
    }

    /// Carries out a request to unlock a mutex by force. It is accepted once the lock is unlocked,
    /// and declined if the mutex was granted after the request.
    pub(super) fn force_unlock(&mut self, id: SessionId, request: &ForceUnlockRequest) {
        let name = Name::new(&request.name).ok();
        let held = name.as_ref().and_then(|name| self.holds.get(name));
        let matching =
            held.filter(|held| held.session == id && held.token.get() <= request.token.unsigned_abs());
        let is_later = held.is_some() && matching.is_none();
        if let (Some(name), Some(ticket)) = (&name, matching.map(|held| held.ticket)) {
            drop(self.end_hold(name, ticket));
            self.events.push(Event::Gone(ticket));
        }
        self.outbound.answer_force_unlock(id, request.id, is_later);
    }

    /// Unlocks a mutex of this process by force; `None` if this process does not hold it.
    pub(super) fn force_own(&mut self, name: &Name, force: Force) -> Option<oneshot::Receiver<Result<Kept>>> {
        let held = self.holds.get(name)?.ticket;
        if force != Force::All && force != Force::One(held) {
            return None;
        }
        self.events.push(Event::Gone(held));
        self.end_hold(name, held)
    }

    /// Returns the holder if it is of this process.
    pub(super) fn own_holder(&self, name: &Name) -> Option<Holder> {
        let held = self.holds.get(name)?;
        let at = now();
        let mut holder = Holder::new(held.ticket, held.token, 1, at.saturating_duration_since(held.since));
        holder.label = held.label.as_deref().map(str::to_owned);
        holder.lease_left = Some(held.until.saturating_duration_since(at));
        Some(holder)
    }
}
