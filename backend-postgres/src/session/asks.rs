//! What callers want of the state.

use std::collections::BTreeSet;
use std::sync::Arc;

use stanchion_core::clock::Instant;
use stanchion_core::steps::{Acquire, Acquired, Kept, Polled, Renew};
use stanchion_core::{Error, ErrorKind, FencingToken, Kind, Name, Result, Ticket};
use tokio::sync::oneshot;

use super::desk::{Event, State};
use super::entry::{Asker, Held, Tried, Waiter};
use super::post::PostId;
use super::wire::SLACK;

/// What becomes of a request.
#[derive(Debug)]
pub(super) enum Asked<T> {
    Done(Result<T>),
    /// The answer comes; the request has that number.
    Sent(u64, oneshot::Receiver<Result<T>>),
    /// It depends on whether a session is alive, which answers when that was asked.
    Probed(oneshot::Receiver<Result<Instant>>),
}

pub(super) fn waiting(epoch: u64) -> Acquired {
    Acquired::Waiting { limit: 1, epoch }
}

pub(super) fn granted(token: FencingToken) -> Acquired {
    Acquired::Granted { token, limit: 1, epoch: 0 }
}

impl State {
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
        self.is_buried(ask.ticket, at).then_some(Ok(Acquired::Cancelled))
    }

    /// Has the mutex tried, unless that can be answered without the server.
    pub(super) fn acquire(&mut self, ask: &Acquire, at: Instant) -> Asked<Tried> {
        if let Some(refusal) = self.refusal(ask, at) {
            return Asked::Done(refusal.map(Tried::Answered));
        }
        let (name, ticket) = (&ask.object.name, ask.ticket);
        let has_place = self.place(ticket).is_some();
        let number = self.number();
        let (caller, answer) = oneshot::channel();
        if let Some(entry) = self.names.get_mut(name) {
            if entry.held_by(ticket).is_some() {
                // A copy of the request may have joined the queue meanwhile.
                drop(self.depart(name, ticket));
                return self.claim(ask, at);
            }
            if entry.held.is_some() {
                return Asked::Done(Ok(Tried::Refused { has_place }));
            }
            if let Some(asker) = entry.askers().find(|asker| asker.waiter.ticket == ticket) {
                // A copy of the request: whoever made the first one has gone.
                (asker.caller, asker.number) = (caller, number);
                return Asked::Sent(number, answer);
            }
        }
        if let Some(error) = self.load.refusal(at).or_else(|| self.pause(at)) {
            return Asked::Done(Err(error));
        }
        let asker = Asker { number, waiter: Waiter::of(ask), cancelled: false, caller };
        self.try_lock(name, asker, has_place);
        Asked::Sent(number, answer)
    }

    /// A ticket that holds it: its lease counts anew, from a statement that is answered.
    fn claim(&mut self, ask: &Acquire, at: Instant) -> Asked<Tried> {
        let Some(held) = self.names.get_mut(&ask.object.name).and_then(|entry| entry.held_by(ask.ticket))
        else {
            return Asked::Done(Ok(Tried::Refused { has_place: false }));
        };
        let Some(post) = self.posts.get_mut(&held.post) else {
            return Asked::Done(Ok(Tried::Refused { has_place: false }));
        };
        if post.heard.is_some_and(|heard| at < heard + SLACK) {
            held.until = held.until.max(at + ask.lease.get());
            return Asked::Done(Ok(Tried::Answered(granted(held.token))));
        }
        let (caller, answer) = oneshot::channel();
        post.probes.push(caller);
        self.woken.push(Arc::clone(&post.wake));
        Asked::Probed(answer)
    }

    /// The session of the hold was alive at `sent`; `None` if the ticket does not hold it any more.
    pub(super) fn claimed(&mut self, ask: &Acquire, sent: Instant) -> Option<Acquired> {
        let held = self.names.get_mut(&ask.object.name)?.held_by(ask.ticket)?;
        held.until = held.until.max(sent + ask.lease.get());
        Some(granted(held.token))
    }

    /// The epoch of the record in which the ticket has its place, if it has one for sure.
    pub(super) fn place(&self, ticket: Ticket) -> Option<u64> {
        self.places.get(&ticket)?.epoch
    }

    /// Why no session is opened at this moment: the last one failed a moment ago (C28).
    pub(super) fn pause(&self, at: Instant) -> Option<Error> {
        let (trouble, until) = self.trouble.as_ref()?;
        (self.shared.is_none() && at < *until).then(|| trouble.replicate())
    }

    /// The session on which the ticket holds the mutex.
    pub(super) fn holder(&self, name: &Name, ticket: Ticket) -> Option<PostId> {
        let held = self.names.get(name)?.held.as_ref().filter(|held| held.ticket == ticket)?;
        Some(held.post)
    }

    /// Has these sessions probed, each once.
    pub(super) fn probe(
        &mut self,
        posts: &[Option<PostId>],
    ) -> Vec<(PostId, oneshot::Receiver<Result<Instant>>)> {
        let asked: BTreeSet<PostId> = posts.iter().copied().flatten().collect();
        let mut answers = Vec::with_capacity(asked.len());
        for id in asked {
            let Some(post) = self.posts.get_mut(&id) else { continue };
            let (caller, answer) = oneshot::channel();
            post.probes.push(caller);
            self.woken.push(Arc::clone(&post.wake));
            answers.push((id, answer));
        }
        answers
    }

    /// A renewal, of which is known when the session was asked that answered.
    pub(super) fn renewed(&mut self, ask: &Renew, sent: Option<&Result<Instant>>) -> Result<Kept> {
        let held = self.names.get_mut(&ask.object.name).and_then(|entry| entry.held_by(ask.ticket));
        let (Some(held), Some(sent)) = (held, sent) else { return Ok(Kept::No) };
        match sent {
            Ok(sent) => {
                held.until = held.until.max(*sent + ask.lease.get());
                Ok(Kept::Yes)
            }
            Err(error) => Err(error.replicate()),
        }
    }

    /// Of those that may be granted by the queue, leaves the ones that this process does not know to be in vain. Where nobody wants
    /// a place, its cancel has to reach the queue.
    pub(super) fn polled(&mut self, name: &Name, polled: Option<&mut Polled>) {
        let Some(polled) = polled else { return };
        if self.names.get(name).is_some_and(|entry| entry.held.is_some()) {
            polled.ready.clear();
        }
        polled.ready.retain(|ticket| {
            !self.departing_now.contains(ticket)
                && self.departures.iter().all(|departure| departure.ticket != *ticket)
        });
        self.orphans.remove(name);
        self.note_orphans(name, &polled.ready);
    }

    /// Of those that may be granted, notes the ones that nobody of this process wants: a cancel of them has to reach the queue.
    pub(super) fn note_orphans(&mut self, name: &Name, ready: &[Ticket]) {
        let is_unknown =
            |ticket: &&Ticket| !self.places.contains_key(ticket) && !self.turns.contains_key(ticket);
        let unknown: Vec<_> = ready.iter().filter(is_unknown).copied().collect();
        if !unknown.is_empty() {
            self.orphans.entry(name.clone()).or_default().extend(unknown);
        }
    }

    /// Whether the ticket may have a place in the queue.
    pub(super) fn may_wait(&self, name: &Name, ticket: Ticket) -> bool {
        self.places.contains_key(&ticket)
            || self.orphans.get(name).is_some_and(|orphans| orphans.contains(&ticket))
    }

    /// Notes a hold that was granted by a statement sent at `sent`.
    pub(super) fn hold(
        &mut self,
        name: &Name,
        waiter: Waiter,
        post: PostId,
        token: FencingToken,
        sent: Instant,
    ) {
        let Waiter { ticket, lease, label, .. } = waiter;
        let until = sent + lease.get();
        self.load.grow();
        if let Some(post) = self.posts.get_mut(&post) {
            post.holds += 1;
        }
        self.ends(until);
        let held = Held { ticket, token, label, post, since: sent, until, is_noted: false };
        self.has_granted = true;
        let entry = self.names.entry(name.clone()).or_default();
        // The server has ended the session of the hold that was there before: nobody else has told it yet.
        if let Some(ended) = entry.held.replace(held).filter(|ended| ended.ticket != ticket) {
            self.events.push(Event::Gone(ended.ticket));
            if let Some(post) = self.posts.get_mut(&ended.post) {
                post.holds = post.holds.saturating_sub(1);
            }
        }
    }
}
