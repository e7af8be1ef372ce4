//! What the sessions do to the state.

use stanchion_core::clock::Instant;
use stanchion_core::steps::Kept;
use stanchion_core::{Error, ErrorKind, Name};

use super::desk::{Event, State};
use super::post::{Batch, Eviction, PostId, Try};
use super::rhythm::{IDLE, RETRY};
use super::wire::Stepped;

/// What a session does next.
#[derive(Debug)]
pub(super) enum Work {
    /// One statement, or two if it also asks.
    Send(Batch),
    Sleep(Instant),
    Close,
}

impl State {
    /// The next work of a session; one that is to end is forgotten.
    pub(super) fn work(&mut self, id: PostId, at: Instant) -> Work {
        let every = self.every(id);
        let is_shared = self.shared == Some(id);
        let Some(post) = self.posts.get_mut(&id) else { return Work::Close };
        if post.closing {
            return Work::Close;
        }
        let (mut batch, attempts) = post.take();
        let due = post.due(every).unwrap_or(at);
        if due <= at {
            batch.asks = true;
            post.probed = Some(at);
        }
        for (name, number) in attempts {
            batch.tries.extend(self.send(name, number));
        }
        let Some(post) = self.posts.get_mut(&id) else { return Work::Close };
        if !batch.is_empty() {
            batch.looks = !batch.tries.is_empty() && self.load.is_due(batch.tries.len(), at);
            if !batch.unlocks.is_empty() || !batch.tries.is_empty() || post.holds > 0 {
                post.idle = at;
            }
            return Work::Send(batch);
        }
        let ends = post.idle + IDLE;
        if post.holds > 0 {
            return Work::Sleep(due);
        }
        if at < ends && is_shared {
            return Work::Sleep(due.min(ends));
        }
        post.closing = true;
        self.shared.take_if(|shared| *shared == id);
        Work::Close
    }

    /// Notes that the attempt is sent, if somebody wants it still.
    fn send(&mut self, name: Name, number: u64) -> Option<Try> {
        let entry = self.names.get_mut(&name)?;
        let attempt = entry.attempt.as_mut().filter(|attempt| attempt.number == number)?;
        attempt.sent = true;
        let tickets = || attempt.askers.iter().map(|asker| asker.waiter.ticket);
        let has_place = |ticket: &_| self.places.get(ticket).is_some_and(|place| place.epoch.is_some());
        let ticket = tickets().find(has_place).or_else(|| tickets().next())?;
        Some(Try { name, number, ticket, reads_queue: attempt.reads_queue })
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

    /// A batch that was sent at `sent` is answered.
    pub(super) fn stepped(&mut self, id: PostId, batch: Batch, stepped: Stepped, sent: Instant, at: Instant) {
        if let Some(load) = stepped.load {
            self.load.saw(load, at);
        }
        for (process, ticket) in stepped.firsts {
            if process == self.process {
                self.events.push(Event::Ring(ticket));
            } else {
                self.hints.push((process, ticket));
                self.hinted += 1;
            }
        }
        for unlock in &batch.unlocks {
            if unlock.ticket.is_some_and(|ticket| stepped.lefts.contains(&ticket)) {
                self.forget_later(unlock);
            }
        }
        for (unlock, unlocked) in batch.unlocks.into_iter().zip(stepped.unlocked) {
            self.left(&unlock, &Ok(if unlocked { Kept::Yes } else { Kept::No }));
        }
        for (Try { name, number, .. }, taken) in batch.tries.into_iter().zip(stepped.taken) {
            self.tried(id, &name, number, taken, sent);
            self.tidy(&name);
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
            if unlocked {
                self.forget_later(&unlock);
                self.left(&unlock, &Ok(Kept::Yes));
            } else {
                self.left_in_doubt(&unlock, error);
            }
        }
        self.untried(batch.tries.into_iter().map(|sent| (sent.name, sent.number)), error);
        for caller in batch.probes {
            drop(caller.send(Err(error.replicate())));
        }
    }

    /// A statement that was sent is overdue: its callers are told so, and its answer may still come.
    fn doubt(&mut self, batch: &mut Batch, error: &Error) {
        for unlock in &batch.unlocks {
            self.left_in_doubt(unlock, error);
        }
        let tries: Vec<_> = batch.tries.iter().map(|sent| (sent.name.clone(), sent.number)).collect();
        self.untried(tries, error);
        for caller in std::mem::take(&mut batch.probes) {
            drop(caller.send(Err(error.replicate())));
        }
    }

    /// A statement is overdue: its callers are told so, the session keeps what it holds for as long as that may be
    /// believed, and nothing new is asked of it.
    ///
    /// Returns from when on it keeps nothing.
    pub(super) fn overdue(&mut self, id: PostId, batch: &mut Batch, error: &Error) -> Option<Instant> {
        self.doubt(batch, error);
        self.shared.take_if(|shared| *shared == id);
        let ttl = self.ttl.get();
        let post = self.posts.get_mut(&id)?;
        post.overdue = true;
        let tries = std::mem::take(&mut post.tries);
        let until = post.heard.filter(|_| post.holds > 0).map(|heard| heard + ttl);
        self.untried(tries, &Error::new(ErrorKind::Unavailable, "the session that was to be asked is stuck"));
        until
    }

    /// A session has ended, with everything that it held.
    pub(super) fn closed(&mut self, id: PostId, error: Option<Error>, at: Instant) {
        let Some(post) = self.posts.remove(&id) else { return };
        if let Some(error) = &error {
            if post.pid.is_none() || error.kind().is_final() {
                self.trouble = Some((error.replicate(), at + RETRY));
            }
            self.depart_again(post.heard.unwrap_or(at));
        }
        self.shared.take_if(|shared| *shared == id);
        for entry in self.names.values_mut() {
            if let Some(held) = entry.held.take_if(|held| held.post == id) {
                self.events.push(Event::Gone(held.ticket));
            }
        }
        let error = error.unwrap_or_else(|| Error::new(ErrorKind::Unavailable, "the session was closed"));
        self.left_all(id, &error, at);
        self.untried(post.tries, &error);
        let rest = Batch { unlocks: post.unlocks, probes: post.probes, ..Batch::default() };
        self.refused(rest, &error, false);
        self.names.retain(|_, entry| !entry.is_idle());
    }

    /// A session was probed by a statement sent at `sent`.
    pub(super) fn probed(&mut self, id: PostId, batch: Batch, evictions: &[Eviction], sent: Instant) {
        self.alive(id, batch, sent);
        for eviction in evictions {
            self.evict(id, eviction);
        }
    }

    /// The server answered a statement that was sent at `sent`, if only by refusing it.
    pub(super) fn alive(&mut self, id: PostId, batch: Batch, sent: Instant) {
        self.hear(id, sent);
        for caller in batch.probes {
            drop(caller.send(Ok(sent)));
        }
    }
}
