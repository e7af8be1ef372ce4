//! The ends of holds.

use std::sync::Arc;

use stanchion_core::clock::Instant;
use stanchion_core::steps::{Cancel, Kept, Release};
use stanchion_core::{Error, ErrorKind, Name, Result, Ticket};
use tokio::sync::oneshot;

use super::asks::Asked;
use super::desk::{Event, State};
use super::entry::Caller;
use super::post::{Eviction, PostId, Unlock};
use super::wire::idle;

/// A hold that is being unlocked.
#[derive(Debug)]
pub(super) struct Leaving {
    post: PostId,
    /// Who waits for it.
    callers: Vec<Caller<Kept>>,
}

fn stuck() -> Error {
    Error::new(ErrorKind::Unknown, "the session that keeps the mutex does not answer")
}

impl State {
    /// Has a lock unlocked that was never a hold of this process.
    pub(super) fn unlock(&mut self, post: PostId, name: &Name) {
        self.send_unlock(post, Unlock { name: name.clone(), ticket: None, is_noted: false });
    }

    fn send_unlock(&mut self, post: PostId, unlock: Unlock) {
        if let Some(post) = self.posts.get_mut(&post) {
            post.unlocks.push(unlock);
            self.woken.push(Arc::clone(&post.wake));
        }
    }

    /// Ends a hold; `None` if it is not there. Where its end is under way the answer is that one's.
    pub(super) fn free(&mut self, name: &Name, ticket: Ticket) -> Option<oneshot::Receiver<Result<Kept>>> {
        let (caller, answer) = oneshot::channel();
        if let Some(leaving) = self.leaving.get_mut(&ticket) {
            leaving.callers.push(caller);
            let post = leaving.post;
            self.tell_if_stuck(post, ticket);
            return Some(answer);
        }
        let entry = self.names.get_mut(name)?;
        let held = entry.held.take_if(|held| held.ticket == ticket)?;
        if let Some(post) = self.posts.get_mut(&held.post) {
            post.holds -= 1;
            self.leaving.insert(ticket, Leaving { post: held.post, callers: vec![caller] });
        }
        let unlock = Unlock { name: name.clone(), ticket: Some(ticket), is_noted: held.is_noted };
        if self.noting.contains(&ticket) {
            self.stale.insert((name.clone(), ticket));
        }
        self.send_unlock(held.post, unlock);
        self.tell_if_stuck(held.post, ticket);
        self.tidy(name);
        Some(answer)
    }

    /// A lock is unlocked, or its session has ended.
    pub(super) fn left(&mut self, unlock: &Unlock, answer: &Result<Kept>) {
        if let Some(leaving) = unlock.ticket.and_then(|ticket| self.leaving.remove(&ticket)) {
            tell(leaving.callers, answer);
        }
        self.tidy(&unlock.name);
    }

    /// A session has ended at `at`, and every hold on it; here, that is. Whether an unlock was carried out that was not answered is
    /// not known before the server has surely ended the session, too.
    pub(super) fn left_all(&mut self, id: PostId, error: &Error, at: Instant) {
        self.doubtful.retain(|_, until| at < *until);
        let until = at + idle(self.ttl);
        for (ticket, leaving) in self.leaving.extract_if(|_, leaving| leaving.post == id) {
            self.doubtful.insert(ticket, until);
            tell(leaving.callers, &Err(error.replicate()));
        }
    }

    /// Nobody waits for a session that is known not to answer: it would keep him from what other sessions do.
    fn tell_if_stuck(&mut self, id: PostId, ticket: Ticket) {
        if self.posts.get(&id).is_some_and(|post| post.overdue)
            && let Some(leaving) = self.leaving.get_mut(&ticket)
        {
            tell(std::mem::take(&mut leaving.callers), &Err(stuck()));
        }
    }

    /// Whether a lock is unlocked is not heard in time: whoever asked is told so.
    pub(super) fn left_in_doubt(&mut self, unlock: &Unlock, error: &Error) {
        if let Some(leaving) = unlock.ticket.and_then(|ticket| self.leaving.get_mut(&ticket)) {
            tell(std::mem::take(&mut leaving.callers), &Err(error.replicate()));
        }
    }

    pub(super) fn release(&mut self, ask: &Release, at: Instant) -> Asked<Kept> {
        if let Some(tombstone) = ask.tombstone {
            self.bury(ask.ticket, at + tombstone.get());
        }
        match self.free(&ask.object.name, ask.ticket) {
            Some(answer) => Asked::Sent(0, answer),
            None if self.doubtful.get(&ask.ticket).is_some_and(|until| at < *until) => {
                Asked::Done(Err(stuck()))
            }
            None => Asked::Done(Ok(Kept::No)),
        }
    }

    pub(super) fn cancel(&mut self, ask: &Cancel, at: Instant) -> Asked<Kept> {
        let name = &ask.object.name;
        // Also where something of it is found: a claim of it may be waiting for a session to be heard.
        self.bury(ask.ticket, at + ask.lease.get());
        if let Some(answer) = self.free(name, ask.ticket) {
            return Asked::Sent(0, answer);
        }
        if let Some(entry) = self.names.get_mut(name) {
            for asker in entry.askers().filter(|asker| asker.waiter.ticket == ask.ticket) {
                asker.cancelled = true;
            }
        }
        Asked::Done(Ok(Kept::No))
    }

    /// Another process wants a mutex: its request is answered once the lock is given up, or was not meant.
    pub(super) fn evict(&mut self, id: PostId, eviction: &Eviction) {
        let name = Name::new(&eviction.name).ok();
        let held = name.as_ref().and_then(|name| self.names.get(name)?.held.as_ref());
        let meant = held.filter(|held| held.post == id && held.token.get() <= eviction.token.unsigned_abs());
        let later = held.is_some() && meant.is_none();
        if let (Some(name), Some(ticket)) = (&name, meant.map(|held| held.ticket)) {
            drop(self.free(name, ticket));
            self.events.push(Event::Gone(ticket));
        }
        if let Some(post) = self.posts.get_mut(&id) {
            let answers = if later { &mut post.answered.declined } else { &mut post.answered.obeyed };
            answers.push(eviction.id);
            self.woken.push(Arc::clone(&post.wake));
        }
    }
}

fn tell(callers: Vec<Caller<Kept>>, answer: &Result<Kept>) {
    for caller in callers {
        // A caller that has gone has no use for its answer.
        drop(caller.send(answer.as_ref().copied().map_err(Error::replicate)));
    }
}
