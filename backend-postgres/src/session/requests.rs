//! The requests of callers for mutexes, applied to the shared state.

use stanchion_core::clock::Instant;
use stanchion_core::spi::{Acquire, Acquired, Kept, Renew};
use stanchion_core::{Error, ErrorKind, Kind, Result};
use tokio::sync::oneshot;

use super::attempts::{Acquisition, LockRequest, TryOutcome};
use super::reply::{Reply, granted};
use super::state::SharedState;
use super::timing::IDLE_TIMEOUT_MARGIN;

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
        self.holds.tombstones.contains(ask.ticket, at).then_some(Ok(Acquired::Cancelled))
    }

    /// Requests a try of the mutex, unless the reply is known without asking the server.
    pub(super) fn acquire(&mut self, ask: &Acquire, at: Instant) -> Reply<TryOutcome> {
        if let Some(refusal) = self.refusal(ask, at) {
            return Reply::Now(refusal.map(TryOutcome::Answered));
        }
        let (name, ticket) = (&ask.object.name, ask.ticket);
        let has_place = self.places.epoch(ticket).is_some();
        match self.holds.get(name) {
            Some(held) if held.ticket == ticket => {
                // A copy of the request may have joined the queue meanwhile.
                drop(self.places.leave(name, ticket));
                return self.claim(ask, at);
            }
            Some(_) => return Reply::Now(Ok(TryOutcome::Refused { has_place })),
            None => {}
        }
        let number = self.outbound.next_number();
        let (reply, answer) = oneshot::channel();
        // It is a copy of a request if the ticket has one: the caller of the first one has gone.
        if let Some(reply) = self.outbound.attempts.take_over(name, ticket, number, reply) {
            if let Some(error) = self.outbound.refusal(at) {
                return Reply::Now(Err(error));
            }
            let request = LockRequest { number, acquisition: Acquisition::of(ask), cancelled: false, reply };
            self.outbound.try_lock(name, request, has_place);
        }
        Reply::Later(number, answer)
    }

    /// Renews the lease of a ticket that holds the mutex, from the time of a statement that the
    /// session has answered.
    fn claim(&mut self, ask: &Acquire, at: Instant) -> Reply<TryOutcome> {
        let session = self.holds.of(&ask.object.name, ask.ticket).map(|held| held.session);
        let alive = session.and_then(|session| self.outbound.session(session)?.last_alive);
        if alive.is_some_and(|alive| at < alive + IDLE_TIMEOUT_MARGIN)
            && let Some(granted) = self.claimed(ask, at)
        {
            return Reply::Now(Ok(TryOutcome::Answered(granted)));
        }
        match session.and_then(|session| self.outbound.probe(session)) {
            Some(answer) => Reply::AfterProbe(answer),
            None => Reply::Now(Ok(TryOutcome::Refused { has_place: false })),
        }
    }

    /// Renews a claimed hold whose session was alive at `sent`; `None` if the ticket no longer
    /// holds the mutex.
    pub(super) fn claimed(&mut self, ask: &Acquire, sent: Instant) -> Option<Acquired> {
        self.holds.renew(&ask.object.name, ask.ticket, sent + ask.lease.get()).map(granted)
    }

    /// Applies a renewal. `sent` is when the probe that the session answered was sent.
    pub(super) fn renew(&mut self, ask: &Renew, sent: Option<&Result<Instant>>) -> Result<Kept> {
        let name = &ask.object.name;
        match sent.filter(|_| self.holds.of(name, ask.ticket).is_some()) {
            None => Ok(Kept::No),
            Some(Ok(sent)) => {
                self.holds.renew(name, ask.ticket, *sent + ask.lease.get());
                Ok(Kept::Yes)
            }
            Some(Err(error)) => Err(error.replicate()),
        }
    }
}
