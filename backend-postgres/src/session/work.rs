//! What the sessions do to the state.

use stanchion_core::clock::Instant;
use stanchion_core::engine::steps::{Acquired, Kept};
use stanchion_core::{Error, ErrorKind, FencingToken, Name};

use super::asks::WAITING;
use super::desk::{Event, State};
use super::entry::Attempt;
use super::load;
use super::post::{Batch, PostId};
use super::rhythm::{EXTRA_IDLE, RETRY, SHARED_IDLE};
use super::wire::{Stepped, token_of};

/// What a session does next.
#[derive(Debug)]
pub(super) enum Work {
    /// One statement, or two if it also asks.
    Send(Batch),
    /// Wait at the server.
    Wait(Name),
    Sleep(Instant),
    Close,
}

impl State {
    /// The next work of a session; one that is to end is forgotten.
    pub(super) fn work(&mut self, id: PostId, at: Instant) -> Work {
        let every = self.every(id);
        let Some(post) = self.posts.get_mut(&id) else { return Work::Close };
        if post.closing {
            return Work::Close;
        }
        let mut batch = post.take();
        let due = post.due(every).unwrap_or(at);
        if due <= at {
            batch.asks = true;
            post.probed = Some(at);
        }
        batch.tries.retain(|(name, number)| {
            let attempt = self.names.get_mut(name).and_then(|entry| entry.attempt.as_mut());
            let attempt = attempt.filter(|attempt| attempt.number == *number);
            attempt.map(|attempt| attempt.sent = true).is_some()
        });
        if !batch.is_empty() {
            batch.looks = !batch.tries.is_empty() && self.load.is_due(batch.tries.len(), at);
            if !batch.unlocks.is_empty() || !batch.tries.is_empty() || post.holds > 0 {
                post.idle = at;
            }
            return Work::Send(batch);
        }
        if let Some(name) = self.job(id) {
            return Work::Wait(name);
        }
        let superseded = self.shared != Some(id);
        let Some(post) = self.posts.get_mut(&id) else { return Work::Close };
        if post.holds > 0 {
            return Work::Sleep(due);
        }
        let ends = post.idle + if post.shared { SHARED_IDLE } else { EXTRA_IDLE };
        if at < ends && !(post.shared && superseded) {
            return Work::Sleep(due.min(ends));
        }
        post.closing = true;
        self.shared.take_if(|shared| *shared == id);
        Work::Close
    }

    /// The mutex that a session waits for next.
    fn job(&mut self, id: PostId) -> Option<Name> {
        let post = self.posts.get(&id).filter(|post| !post.shared && post.holds == 0)?;
        if let Some(name) = post.job.clone() {
            let entry = self.names.get(&name);
            if entry.is_some_and(|entry| entry.waits == Some(id) && !entry.queue.is_empty()) {
                return Some(name);
            }
        }
        let next = self.next_starved();
        if let Some(entry) = next.as_ref().and_then(|name| self.names.get_mut(name)) {
            entry.waits = Some(id);
        }
        if let Some(post) = self.posts.get_mut(&id) {
            post.job.clone_from(&next);
        }
        next
    }

    /// The first of the mutexes that no session waits for.
    fn next_starved(&mut self) -> Option<Name> {
        while let Some(name) = self.starved.front() {
            let Some(entry) = self.names.get_mut(name).filter(|entry| entry.starved) else {
                self.starved.pop_front();
                continue;
            };
            if entry.queue.is_empty() || entry.waits.is_some() {
                entry.starved = false;
                self.starved.pop_front();
                continue;
            }
            if entry.attempt.is_some() {
                return None;
            }
            entry.starved = false;
            return self.starved.pop_front();
        }
        None
    }

    /// Finds a session that waits for a mutex on behalf of the first in its queue.
    pub(super) fn seek(&mut self, name: &Name) {
        let Some(entry) = self.names.get_mut(name) else { return };
        if entry.queue.is_empty() || entry.waits.is_some() || entry.starved || entry.attempt.is_some() {
            return;
        }
        let idle = self.posts.iter().find(|(_, post)| !post.shared && !post.closing && post.is_idle());
        let found = idle.map(|(id, _)| *id).or_else(|| self.another());
        let Some(id) = found else {
            self.starved.push_back(name.clone());
            if let Some(entry) = self.names.get_mut(name) {
                entry.starved = true;
            }
            self.stir();
            return;
        };
        if let Some(entry) = self.names.get_mut(name) {
            entry.waits = Some(id);
        }
        if let Some(post) = self.posts.get_mut(&id) {
            post.job = Some(name.clone());
            post.wake.notify_one();
        }
    }

    /// One more session to wait on, if there may be one.
    fn another(&mut self) -> Option<PostId> {
        let there = self.posts.values().filter(|post| !post.shared).count();
        (there < self.waiting && stanchion_core::clock::now() >= self.waits_at).then(|| self.open(false))
    }

    /// The session is open.
    pub(super) fn opened(&mut self, id: PostId, pid: i32, sent: Instant) {
        self.trouble = None;
        if let Some(post) = self.posts.get_mut(&id) {
            post.pid = Some(pid);
            post.heard = Some(sent);
            post.probed = Some(sent);
            post.idle = sent;
        }
    }

    /// The sessions that wait at the server.
    pub(super) fn waiting_pids(&self) -> Vec<i32> {
        let waiting = self.posts.values().filter(|post| post.job.is_some());
        waiting.filter_map(|post| post.pid).collect()
    }

    /// A batch that was sent at `sent` is answered.
    pub(super) fn stepped(
        &mut self,
        id: PostId,
        batch: Batch,
        stepped: &Stepped,
        sent: Instant,
        at: Instant,
    ) {
        self.hear(id, sent);
        if let Some(load) = stepped.load {
            self.load.saw(load, at);
        }
        for (unlock, unlocked) in batch.unlocks.into_iter().zip(&stepped.unlocked) {
            if let Some(caller) = unlock.caller {
                // A caller that has gone has no use for its answer.
                drop(caller.send(Ok(if *unlocked { Kept::Yes } else { Kept::No })));
            }
            self.tidy(&unlock.name);
        }
        for ((name, number), token) in batch.tries.iter().zip(&stepped.tokens) {
            self.tried(id, name, *number, *token, sent);
            self.seek(name);
            self.tidy(name);
        }
        for caller in batch.probes {
            drop(caller.send(Ok(sent)));
        }
    }

    fn hear(&mut self, id: PostId, sent: Instant) {
        if let Some(post) = self.posts.get_mut(&id) {
            post.heard = Some(sent);
        }
    }

    fn tried(&mut self, id: PostId, name: &Name, number: u64, token: i64, sent: Instant) {
        let granted = token_of(token);
        let entry = self.names.get_mut(name);
        let attempt = entry.and_then(|entry| entry.attempt.take_if(|attempt| attempt.number == number));
        match (attempt, granted) {
            (None, None) => {}
            (None, Some(_)) => self.unlock(id, name, None),
            (Some(attempt), Some(token)) => self.won(id, name, attempt, token, sent),
            (Some(attempt), None) => self.failed(name, attempt, token < 0),
        }
    }

    fn won(&mut self, id: PostId, name: &Name, attempt: Attempt, token: FencingToken, sent: Instant) {
        match attempt.caller {
            Some(caller) if !attempt.cancelled => {
                self.hold(name, attempt.waiter, id, token, sent);
                drop(caller.send(Ok(Acquired::Granted { token, limit: 1, born: 0 })));
            }
            caller => {
                if let Some(caller) = caller {
                    drop(caller.send(Ok(Acquired::Cancelled)));
                }
                if !self.hand(name, id, token, sent) {
                    self.unlock(id, name, None);
                }
            }
        }
    }

    fn failed(&mut self, name: &Name, attempt: Attempt, full: bool) {
        let Some(caller) = attempt.caller else { return };
        let answer = if attempt.cancelled {
            Ok(Acquired::Cancelled)
        } else if full {
            Err(load::full())
        } else {
            if let Some(entry) = self.names.get_mut(name).filter(|_| attempt.queues) {
                entry.queue.push_front(attempt.waiter);
            }
            Ok(WAITING)
        };
        drop(caller.send(answer));
    }

    /// A batch was not carried out, or may not have been. `unlocked` says that the session holds none of its names now.
    pub(super) fn refused(&mut self, batch: Batch, error: &Error, unlocked: bool) {
        for unlock in batch.unlocks {
            if let Some(caller) = unlock.caller {
                drop(caller.send(if unlocked { Ok(Kept::Yes) } else { Err(error.replicate()) }));
            }
        }
        for (name, number) in batch.tries {
            let entry = self.names.get_mut(&name);
            let attempt = entry.and_then(|entry| entry.attempt.take_if(|attempt| attempt.number == number));
            if let Some(caller) = attempt.and_then(|attempt| attempt.caller) {
                drop(caller.send(Err(error.replicate())));
            }
            self.seek(&name);
            self.tidy(&name);
        }
        for caller in batch.probes {
            drop(caller.send(Err(error.replicate())));
        }
    }

    /// A session that waited has the lock, and showed by a statement sent at `sent` that its client is there.
    pub(super) fn granted(&mut self, id: PostId, name: &Name, token: FencingToken, sent: Instant) {
        self.hear(id, sent);
        if let Some(post) = self.posts.get_mut(&id) {
            post.job = None;
            post.idle = sent;
        }
        if let Some(entry) = self.names.get_mut(name) {
            entry.waits.take_if(|waits| *waits == id);
        }
        if !self.hand(name, id, token, sent) {
            self.unlock(id, name, None);
        }
        self.seek(name);
        self.tidy(name);
    }

    /// A statement is overdue: the session keeps what it holds for as long as that may be believed, and nothing new is
    /// asked of it.
    ///
    /// Returns from when on it keeps nothing.
    pub(super) fn overdue(&mut self, id: PostId) -> Option<Instant> {
        if self.shared == Some(id) {
            self.shared = None;
        }
        self.alarm();
        let ttl = self.ttl.get();
        let post = self.posts.get_mut(&id)?;
        let rest = Batch { tries: std::mem::take(&mut post.tries), ..Batch::default() };
        let until = post.heard.filter(|_| post.holds > 0).map(|heard| heard + ttl);
        self.refused(
            rest,
            &Error::new(ErrorKind::Unavailable, "the session that was to be asked is stuck"),
            false,
        );
        until
    }

    /// The server may be away: sessions that wait there may never hear of it and begin anew.
    fn alarm(&mut self) {
        for post in self.posts.values_mut().filter(|post| post.job.is_some() && post.pid.is_some()) {
            post.closing = true;
            post.wake.notify_one();
        }
    }

    /// A session has ended, with everything that it held.
    pub(super) fn closed(&mut self, id: PostId, error: Option<Error>) {
        let Some(mut post) = self.posts.remove(&id) else { return };
        if let Some(error) = &error {
            if post.pid.is_none() {
                self.trouble = Some(error.replicate());
            } else if post.shared {
                self.alarm();
            }
            self.waits_at = stanchion_core::clock::now() + RETRY;
        }
        if self.shared == Some(id) {
            self.shared = None;
        }
        let lost: Vec<Name> =
            self.names.iter().filter(|(_, entry)| entry.is_on(id)).map(|(name, _)| name.clone()).collect();
        for name in &lost {
            let Some(entry) = self.names.get_mut(name) else { continue };
            entry.waits.take_if(|waits| *waits == id);
            if let Some(held) = entry.held.take_if(|held| held.post == id) {
                self.events.push(Event::Gone(held.ticket));
            }
        }
        let rest = Batch {
            unlocks: std::mem::take(&mut post.unlocks),
            tries: std::mem::take(&mut post.tries),
            probes: std::mem::take(&mut post.probes),
            ..Batch::default()
        };
        let error = error.unwrap_or_else(|| Error::new(ErrorKind::Unavailable, "the session was closed"));
        self.refused(rest, &error, false);
        for name in &lost {
            self.seek(name);
            self.tidy(name);
        }
        self.stir();
    }

    /// Others want a mutex that a session holds.
    pub(super) fn evicted(&mut self, id: PostId, names: &[String]) {
        let holds = |state: &Self, name: &Name| {
            let held = state.names.get(name)?.held.as_ref()?;
            (held.post == id).then_some(held.ticket)
        };
        for name in names.iter().filter_map(|name| Name::new(name).ok()) {
            if let Some(ticket) = holds(self, &name) {
                drop(self.free(&name, ticket));
                self.events.push(Event::Gone(ticket));
            }
        }
    }

    /// Sessions that the server has ended although they seem to wait there.
    pub(super) fn ended(&mut self, pids: &[i32]) {
        for post in self.posts.values_mut().filter(|post| post.job.is_some()) {
            if post.pid.is_some_and(|pid| pids.contains(&pid)) {
                post.closing = true;
                post.wake.notify_one();
            }
        }
    }
}
