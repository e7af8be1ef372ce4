//! What the sessions do to the state.

use std::sync::Arc;

use stanchion_core::clock::Instant;
use stanchion_core::steps::Kept;
use stanchion_core::{Error, ErrorKind, FencingToken, Name};

use super::desk::{Event, State};
use super::post::{Batch, PostId};
use super::rhythm::{EXTRA_IDLE, RETRY, SHARED_IDLE};
use super::wire::{Probed, Stepped};

/// So many times the sessions that may wait there may be, with those that keep what they waited for.
const MOST: usize = 4;

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
            attempt.map(|attempt| attempt.sent = Some(self.numbers)).is_some()
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
        let watches = !superseded && self.posts.values().any(|post| post.job.is_some());
        let Some(post) = self.posts.get_mut(&id) else { return Work::Close };
        if post.holds > 0 || watches {
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
        self.watch();
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
            self.woken.push(Arc::clone(&post.wake));
        }
        self.watch();
    }

    /// A session waits: the shared one shows more often from now on that the process is alive.
    fn watch(&mut self) {
        if let Some(post) = self.shared.and_then(|id| self.posts.get(&id)) {
            self.woken.push(Arc::clone(&post.wake));
        }
    }

    /// One more session to wait on, if there may be one. Those that keep what they waited for count apart.
    fn another(&mut self) -> Option<PostId> {
        let others = || self.posts.values().filter(|post| !post.shared);
        let free = others().filter(|post| post.holds == 0).count() < self.waiting;
        let room = free && others().count() < MOST * self.waiting;
        (room && stanchion_core::clock::now() >= self.waits_at).then(|| self.open(false))
    }

    /// The session is open.
    pub(super) fn opened(&mut self, id: PostId, pid: i32, sent: Instant) {
        self.trouble = None;
        let waits = self.posts.values().any(|post| post.job.is_some());
        if let Some(post) = self.posts.get_mut(&id) {
            post.pid = Some(pid);
            post.heard = Some(sent);
            // Whoever tries looks after those who wait; another such session may just have ended, and they with it.
            post.probed = (!post.shared || !waits).then_some(sent);
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
        if let Some(load) = stepped.load {
            self.load.saw(load, at);
        }
        for (unlock, unlocked) in batch.unlocks.into_iter().zip(&stepped.unlocked) {
            self.left(&unlock, &Ok(if *unlocked { Kept::Yes } else { Kept::No }));
        }
        for ((name, number), token) in batch.tries.iter().zip(&stepped.tokens) {
            self.tried(id, name, *number, *token, sent);
            self.seek(name);
            self.tidy(name);
        }
        let rest = Batch { probes: batch.probes, ..Batch::default() };
        self.alive(id, rest, sent);
    }

    fn hear(&mut self, id: PostId, sent: Instant) {
        if let Some(post) = self.posts.get_mut(&id) {
            post.overdue = false;
            post.heard = Some(sent);
        }
    }

    /// A batch was not carried out, or may not have been. `unlocked` says that the session holds none of its names now.
    pub(super) fn refused(&mut self, batch: Batch, error: &Error, unlocked: bool) {
        for unlock in batch.unlocks {
            let answer = if unlocked { Ok(Kept::Yes) } else { Err(error.replicate()) };
            self.left(&unlock, &answer);
        }
        self.untried(batch.tries, error);
        for caller in batch.probes {
            drop(caller.send(Err(error.replicate())));
        }
    }

    /// A statement that was sent is overdue: its callers are told so, and its answer may still come.
    fn doubt(&mut self, batch: &mut Batch, error: &Error) {
        for unlock in &batch.unlocks {
            self.left_in_doubt(unlock, error);
        }
        self.untried(batch.tries.clone(), error);
        for caller in std::mem::take(&mut batch.probes) {
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
        if self.posts.get(&id).is_none_or(|post| post.closing) {
            // It ends, and the lock with it.
            self.seek(name);
            return self.tidy(name);
        }
        if !self.hand(name, id, token, sent) {
            self.unlock(id, name, None);
        }
        self.seek(name);
        self.tidy(name);
    }

    /// A statement is overdue: its callers are told so, the session keeps what it holds for as long as that may be
    /// believed, and nothing new is asked of it.
    ///
    /// Returns from when on it keeps nothing.
    pub(super) fn overdue(&mut self, id: PostId, batch: &mut Batch, error: &Error) -> Option<Instant> {
        self.doubt(batch, error);
        if self.shared == Some(id) {
            self.shared = None;
            // Another one looks after the sessions that wait.
            self.stir();
        }
        let ttl = self.ttl.get();
        let post = self.posts.get_mut(&id)?;
        post.overdue = true;
        let tries = std::mem::take(&mut post.tries);
        let until = post.heard.filter(|_| post.holds > 0).map(|heard| heard + ttl);
        self.untried(tries, &Error::new(ErrorKind::Unavailable, "the session that was to be asked is stuck"));
        until
    }

    /// A session has ended, with everything that it held.
    pub(super) fn closed(&mut self, id: PostId, error: Option<Error>) {
        let Some(mut post) = self.posts.remove(&id) else { return };
        if let Some(error) = &error {
            if post.pid.is_none() || error.kind().is_final() {
                self.trouble = Some(error.replicate());
            }
            // No pause where it took its time to fail: a server that goes on after a stall is there at once.
            self.waits_at = self.waits_at.max(post.begun + RETRY);
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
        self.left_all(id, &error);
        self.refused(rest, &error, false);
        for name in &lost {
            self.seek(name);
            self.tidy(name);
        }
        self.stir();
    }

    /// A session was probed by a statement sent at `sent`.
    pub(super) fn probed(&mut self, id: PostId, batch: Batch, probed: &Probed, sent: Instant) {
        self.alive(id, batch, sent);
        for eviction in &probed.evictions {
            self.evict(id, eviction);
        }
        self.ended(&probed.ended);
    }

    /// The server answered a statement that was sent at `sent`, if only by refusing it.
    pub(super) fn alive(&mut self, id: PostId, batch: Batch, sent: Instant) {
        self.hear(id, sent);
        for caller in batch.probes {
            drop(caller.send(Ok(sent)));
        }
    }

    /// Sessions that the server has ended although they seem to wait there.
    fn ended(&mut self, pids: &[i32]) {
        for post in self.posts.values_mut().filter(|post| post.job.is_some()) {
            if post.pid.is_some_and(|pid| pids.contains(&pid)) {
                post.closing = true;
                self.woken.push(Arc::clone(&post.wake));
            }
        }
    }
}
