//! The requests of callers, applied to the shared state.

use std::collections::BTreeSet;
use std::sync::Arc;

use stanchion_core::clock::Instant;
use stanchion_core::spi::{Acquire, Acquired, Kept, Polled, Renew};
use stanchion_core::{Error, ErrorKind, FencingToken, Kind, Name, Result, Ticket};
use tokio::sync::oneshot;

use super::connection::IDLE_TIMEOUT_MARGIN;
use super::lock_sessions::{Event, SharedState};
use super::mutex_state::{Acquisition, LockRequest, SessionHold, TryOutcome};
use super::session_state::SessionId;

/// The reply to a request, or how to wait for it.
#[derive(Debug)]
pub(super) enum Reply<T> {
    Now(Result<T>),
    /// The reply comes later; the number is that of the request.
    Later(u64, oneshot::Receiver<Result<T>>),
    /// The reply depends on whether a session is alive. The receiver gets the time at which the probe that
    /// was answered was sent.
    AfterProbe(oneshot::Receiver<Result<Instant>>),
}

pub(super) fn waiting(epoch: u64) -> Acquired {
    Acquired::Waiting { limit: 1, epoch }
}

pub(super) fn granted(token: FencingToken) -> Acquired {
    Acquired::Granted { token, limit: 1, epoch: 0 }
}

impl SharedState {
    fn refusal(&self, ask: &Acquire, at: Instant) -> Option<Result<Acquired>> {
        if ask.object.kind != Kind::Mutex {
            let detail = "database sessions keep mutexes only";
            return Some(Err(Error::new(ErrorKind::Unsupported, detail)));
        }
        if ask.lease > self.ttl {
            let detail = format!("in session mode the TTL is one for all, {:?}", self.ttl.get());
            return Some(Err(Error::invalid_argument(detail)));
        }
        if ask.weight > 1 {
            return Some(Ok(Acquired::TooLarge { limit: 1 }));
        }
        self.has_tombstone(ask.ticket, at).then_some(Ok(Acquired::Cancelled))
    }

    /// Requests a try of the mutex, unless the reply is known without asking the server.
    pub(super) fn acquire(&mut self, ask: &Acquire, at: Instant) -> Reply<TryOutcome> {
        if let Some(refusal) = self.refusal(ask, at) {
            return Reply::Now(refusal.map(TryOutcome::Answered));
        }
        let (name, ticket) = (&ask.object.name, ask.ticket);
        let has_place = self.queue_epoch(ticket).is_some();
        let number = self.next_number();
        let (reply, answer) = oneshot::channel();
        if let Some(mutex) = self.mutexes.get_mut(name) {
            if mutex.held_by(ticket).is_some() {
                // A copy of the request may have joined the queue meanwhile.
                drop(self.leave_queue(name, ticket));
                return self.claim(ask, at);
            }
            if mutex.held.is_some() {
                return Reply::Now(Ok(TryOutcome::Refused { has_place }));
            }
            if let Some(request) = mutex.requests().find(|request| request.acquisition.ticket == ticket) {
                // A copy of the request: the caller of the first one has gone.
                (request.reply, request.number) = (reply, number);
                return Reply::Later(number, answer);
            }
        }
        if let Some(error) = self.lock_table.refusal(at).or_else(|| self.open_refusal(at)) {
            return Reply::Now(Err(error));
        }
        let request = LockRequest { number, acquisition: Acquisition::of(ask), cancelled: false, reply };
        self.try_lock(name, request, has_place);
        Reply::Later(number, answer)
    }

    /// Renews the lease of a ticket that holds the mutex, from the time of a statement that the session has
    /// answered.
    fn claim(&mut self, ask: &Acquire, at: Instant) -> Reply<TryOutcome> {
        let Some(held) = self.mutexes.get_mut(&ask.object.name).and_then(|mutex| mutex.held_by(ask.ticket))
        else {
            return Reply::Now(Ok(TryOutcome::Refused { has_place: false }));
        };
        let Some(session) = self.sessions.get_mut(&held.session) else {
            return Reply::Now(Ok(TryOutcome::Refused { has_place: false }));
        };
        if session.last_alive.is_some_and(|alive| at < alive + IDLE_TIMEOUT_MARGIN) {
            held.until = held.until.max(at + ask.lease.get());
            return Reply::Now(Ok(TryOutcome::Answered(granted(held.token))));
        }
        let (reply, answer) = oneshot::channel();
        session.probes.push(reply);
        self.sessions_to_wake.push(Arc::clone(&session.wake));
        Reply::AfterProbe(answer)
    }

    /// Renews a claimed hold whose session was alive at `sent`; `None` if the ticket no longer holds the
    /// mutex.
    pub(super) fn claimed(&mut self, ask: &Acquire, sent: Instant) -> Option<Acquired> {
        let held = self.mutexes.get_mut(&ask.object.name)?.held_by(ask.ticket)?;
        held.until = held.until.max(sent + ask.lease.get());
        Some(granted(held.token))
    }

    /// Returns the epoch of the record in which the ticket has its place; `None` if it is not certain to have
    /// one.
    pub(super) fn queue_epoch(&self, ticket: Ticket) -> Option<u64> {
        self.places.get(&ticket)?.epoch
    }

    /// Returns why no session may be opened now: the last attempt failed a moment ago (C28).
    pub(super) fn open_refusal(&self, at: Instant) -> Option<Error> {
        let (failure, until) = self.open_failure.as_ref()?;
        (self.current.is_none() && at < *until).then(|| failure.replicate())
    }

    /// Returns the session on which the ticket holds the mutex.
    pub(super) fn holding_session(&self, name: &Name, ticket: Ticket) -> Option<SessionId> {
        let held = self.mutexes.get(name)?.held.as_ref().filter(|held| held.ticket == ticket)?;
        Some(held.session)
    }

    /// Requests a probe of each of these sessions.
    pub(super) fn probe(
        &mut self,
        sessions: &[Option<SessionId>],
    ) -> Vec<(SessionId, oneshot::Receiver<Result<Instant>>)> {
        let ids: BTreeSet<SessionId> = sessions.iter().copied().flatten().collect();
        let mut answers = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            let (reply, answer) = oneshot::channel();
            session.probes.push(reply);
            self.sessions_to_wake.push(Arc::clone(&session.wake));
            answers.push((id, answer));
        }
        answers
    }

    /// Applies a renewal. `sent` is when the probe that the session answered was sent.
    pub(super) fn renew(&mut self, ask: &Renew, sent: Option<&Result<Instant>>) -> Result<Kept> {
        let held = self.mutexes.get_mut(&ask.object.name).and_then(|mutex| mutex.held_by(ask.ticket));
        let (Some(held), Some(sent)) = (held, sent) else { return Ok(Kept::No) };
        match sent {
            Ok(sent) => {
                held.until = held.until.max(*sent + ask.lease.get());
                Ok(Kept::Yes)
            }
            Err(error) => Err(error.replicate()),
        }
    }

    /// Keeps those ready tickets for which a try is of use, and notes the ones that this process does not
    /// know.
    pub(super) fn polled(&mut self, name: &Name, polled: Option<&mut Polled>) {
        let Some(polled) = polled else { return };
        if self.mutexes.get(name).is_some_and(|mutex| mutex.held.is_some()) {
            polled.ready.clear();
        }
        polled.ready.retain(|ticket| {
            !self.leaving_now.contains(ticket)
                && self.leave_requests.iter().all(|request| request.ticket != *ticket)
        });
        self.orphaned_places.remove(name);
        self.add_orphaned_places(name, &polled.ready);
    }

    /// Notes the ready tickets that this process does not know: a cancel of one of them has to reach the
    /// queue.
    pub(super) fn add_orphaned_places(&mut self, name: &Name, ready: &[Ticket]) {
        let is_unknown =
            |ticket: &&Ticket| !self.places.contains_key(ticket) && !self.turns.contains_key(ticket);
        let unknown: Vec<_> = ready.iter().filter(is_unknown).copied().collect();
        if !unknown.is_empty() {
            self.orphaned_places.entry(name.clone()).or_default().extend(unknown);
        }
    }

    /// Returns whether the ticket may have a place in the queue.
    pub(super) fn may_have_place(&self, name: &Name, ticket: Ticket) -> bool {
        self.places.contains_key(&ticket)
            || self.orphaned_places.get(name).is_some_and(|tickets| tickets.contains(&ticket))
    }

    /// Adds a hold that was granted by a statement sent at `sent`.
    pub(super) fn add_hold(
        &mut self,
        name: &Name,
        acquisition: Acquisition,
        session: SessionId,
        token: FencingToken,
        sent: Instant,
    ) {
        let Acquisition { ticket, lease, label, .. } = acquisition;
        let until = sent + lease.get();
        self.lock_table.count_grant();
        if let Some(session) = self.sessions.get_mut(&session) {
            session.holds += 1;
        }
        self.schedule_expiry(until);
        let held = SessionHold { ticket, token, label, session, since: sent, until, is_recorded: false };
        self.has_unrecorded_holds = true;
        let mutex = self.mutexes.entry(name.clone()).or_default();
        // The server has ended the session of the hold that was there before. The engine has not been told of
        // that yet.
        if let Some(ended) = mutex.held.replace(held).filter(|ended| ended.ticket != ticket) {
            self.events.push(Event::Gone(ended.ticket));
            if let Some(session) = self.sessions.get_mut(&ended.session) {
                session.holds = session.holds.saturating_sub(1);
            }
        }
    }
}
