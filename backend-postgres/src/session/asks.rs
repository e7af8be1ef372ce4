//! What callers want of the state.

use std::collections::BTreeSet;
use std::sync::Arc;

use stanchion_core::clock::Instant;
use stanchion_core::steps::{Acquire, Acquired, Kept, Polled, Renew};
use stanchion_core::{Error, ErrorKind, FencingToken, Kind, Name, Result, Ticket};
use tokio::sync::oneshot;

use super::desk::{Event, State};
use super::entry::{Held, Waiter};
use super::post::PostId;
use super::wire::SLACK;

/// What becomes of a request.
#[derive(Debug)]
pub(super) enum Asked<T> {
    Done(Result<T>),
    /// The answer comes; the attempt of that number is made for it.
    Sent(u64, oneshot::Receiver<Result<T>>),
    /// It depends on whether a session is alive, which answers when that was asked.
    Probed(oneshot::Receiver<Result<Instant>>),
    /// It depends on how many others wait at the server.
    Counted,
}

pub(super) const WAITING: Acquired = Acquired::Waiting { limit: 1, epoch: 0 };

fn granted(held: &Held) -> Acquired {
    Acquired::Granted { token: held.token, limit: 1, epoch: 0 }
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

    /// Grants, queues or refuses, as far as that can be said without the server.
    pub(super) fn acquire(&mut self, ask: &Acquire, at: Instant) -> Asked<Acquired> {
        if let Some(refusal) = self.refusal(ask, at) {
            return Asked::Done(refusal);
        }
        let name = &ask.object.name;
        let Some(entry) = self.names.get_mut(name) else { return self.attempt(ask, at) };
        if entry.held_by(ask.ticket).is_some() {
            return self.claim(ask, at);
        }
        if entry.queue.iter().any(|waiter| waiter.ticket == ask.ticket) {
            if !ask.queue {
                self.leave(name, ask.ticket);
            } else if let Some(trouble) = self.trouble.as_ref().filter(|trouble| trouble.kind().is_final()) {
                let error = trouble.replicate();
                self.leave(name, ask.ticket);
                return Asked::Done(Err(error));
            }
            return Asked::Done(Ok(WAITING));
        }
        let queues = ask.queue && ask.max_waiters.is_none();
        if let Some(attempt) = entry.tried_by(ask.ticket) {
            let (caller, answer) = oneshot::channel();
            attempt.caller = Some(caller);
            attempt.queues = queues;
            return Asked::Sent(attempt.number, answer);
        }
        match (entry.is_busy(), ask.queue) {
            (false, _) => self.attempt(ask, at),
            (true, false) if entry.is_open() => self.try_behind(name, Waiter::of(ask)),
            (true, false) => Asked::Done(Ok(WAITING)),
            (true, true) if ask.max_waiters.is_some() => Asked::Counted,
            (true, true) => Asked::Done(Ok(self.join(ask))),
        }
    }

    fn attempt(&mut self, ask: &Acquire, at: Instant) -> Asked<Acquired> {
        if let Some(error) = self.load.refusal(at) {
            return Asked::Done(Err(error));
        }
        let (caller, answer) = oneshot::channel();
        let queues = ask.queue && ask.max_waiters.is_none();
        let number = self.try_lock(&ask.object.name, Waiter::of(ask), queues, Some(caller));
        Asked::Sent(number, answer)
    }

    /// A ticket that holds it: its lease counts anew, from a statement that is answered.
    fn claim(&mut self, ask: &Acquire, at: Instant) -> Asked<Acquired> {
        let Some(held) = self.names.get_mut(&ask.object.name).and_then(|entry| entry.held_by(ask.ticket))
        else {
            return Asked::Done(Ok(WAITING));
        };
        let Some(post) = self.posts.get_mut(&held.post) else { return Asked::Done(Ok(WAITING)) };
        if post.heard.is_some_and(|heard| at < heard + SLACK) {
            held.until = held.until.max(at + ask.lease.get());
            held.claimed = true;
            return Asked::Done(Ok(granted(held)));
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
        held.claimed = true;
        Some(granted(held))
    }

    fn join(&mut self, ask: &Acquire) -> Acquired {
        let name = &ask.object.name;
        self.names.entry(name.clone()).or_default().queue.push_back(Waiter::of(ask));
        self.seek(name);
        WAITING
    }

    /// Joins a bounded queue, in which `others` of other processes wait at the server.
    pub(super) fn join_bounded(&mut self, ask: &Acquire, others: usize, at: Instant) -> Asked<Acquired> {
        if let Some(refusal) = self.refusal(ask, at) {
            return Asked::Done(refusal);
        }
        let entry = self.names.get_mut(&ask.object.name);
        if entry.is_some_and(|entry| entry.knows(ask.ticket)) {
            // A copy of the request joined meanwhile.
            return self.acquire(ask, at);
        }
        let bound = ask.max_waiters.and_then(|bound| usize::try_from(bound).ok()).unwrap_or(usize::MAX);
        let local = self.names.get(&ask.object.name).map_or(0, |entry| entry.queue.len());
        if local + others >= bound {
            return Asked::Done(Ok(Acquired::Overloaded));
        }
        Asked::Done(Ok(self.join(ask)))
    }

    /// Takes a ticket out of the queue. With the last one the wait at the server ends.
    pub(super) fn leave(&mut self, name: &Name, ticket: Ticket) -> bool {
        let Some(entry) = self.names.get_mut(name) else { return false };
        let left = entry.leave(ticket);
        if left && entry.queue.is_empty() {
            if let Some(post) = entry.waits.take().and_then(|id| self.posts.get_mut(&id)) {
                post.closing = true;
                self.woken.push(Arc::clone(&post.wake));
            }
            self.tidy(name);
        }
        left
    }

    /// The session of a hold; `None` if the hold is not there.
    pub(super) fn holder(&mut self, name: &Name, ticket: Ticket) -> Option<PostId> {
        Some(self.names.get_mut(name)?.held_by(ticket)?.post)
    }

    /// Asks sessions, each once, whether they are alive.
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

    pub(super) fn poll(&self, name: &Name) -> Result<Polled> {
        if let Some(trouble) = &self.trouble {
            return Err(trouble.replicate());
        }
        let held = self.names.get(name).and_then(|entry| entry.held.as_ref());
        let ready = held.filter(|held| !held.claimed).map(|held| held.ticket);
        Ok(Polled { ready: ready.into_iter().collect(), next: None, is_first: true, epoch: 0 })
    }

    /// Gives a lock that was granted on a session to the first in the queue.
    pub(super) fn hand(&mut self, name: &Name, post: PostId, token: FencingToken, sent: Instant) -> bool {
        let Some(waiter) = self.names.get_mut(name).and_then(|entry| entry.queue.pop_front()) else {
            return false;
        };
        let ticket = waiter.ticket;
        self.hold(name, waiter, post, token, sent).claimed = false;
        // Behind the news of a hold that this one replaces.
        self.events.push(Event::Ring(ticket));
        true
    }

    /// Notes a hold that was granted by a statement sent at `sent`.
    pub(super) fn hold(
        &mut self,
        name: &Name,
        waiter: Waiter,
        post: PostId,
        token: FencingToken,
        sent: Instant,
    ) -> &mut Held {
        let Waiter { ticket, lease, label } = waiter;
        let until = sent + lease.get();
        self.load.grow();
        if let Some(post) = self.posts.get_mut(&post) {
            post.holds += 1;
        }
        self.ends(until);
        let held = Held { ticket, token, label, post, claimed: true, since: sent, until };
        let entry = self.names.entry(name.clone()).or_default();
        // The server has ended the session of the hold that was there before: nobody else has told it yet.
        if let Some(ended) = entry.held.take().filter(|ended| ended.ticket != ticket) {
            self.events.push(Event::Gone(ended.ticket));
            if let Some(post) = self.posts.get_mut(&ended.post) {
                post.holds = post.holds.saturating_sub(1);
            }
        }
        entry.held.insert(held)
    }
}
