//! The store's record of a name, and the effect of each step on it.

use std::collections::HashMap;
use std::sync::Arc;

use stanchion_core::spi::{
    Acquire, Acquired, Attach, Attached, Cancel, Force, Kept, ParameterCheck, ProcessId, Release, Renew,
};
use stanchion_core::{FencingToken, Holder, Inspection, OnMismatch, Result, Ticket};

use crate::mistake::Mistake;
use crate::moment::Moment;

/// A hold of permits.
#[derive(Clone, Debug)]
pub struct Hold {
    /// Names the acquisition.
    pub ticket: Ticket,
    /// The number of permits.
    pub weight: u32,
    /// The token of the grant.
    pub token: FencingToken,
    /// When it was granted. All times are in µs since 1970 by the server's clock.
    pub granted: u64,
    /// When its lease ends.
    pub expires: u64,
    /// Shown by `inspect`.
    pub label: Option<Arc<str>>,
}

/// A waiter's place in the queue.
#[derive(Clone, Copy, Debug)]
pub struct QueuedWaiter {
    /// Names the acquisition.
    pub ticket: Ticket,
    /// The waiter's process: it gets the wake-ups, and its polls keep the waiter live.
    pub process: ProcessId,
    /// The number of permits that it asks for.
    pub weight: u32,
    /// How long the waiter keeps its place while its process is silent, in µs.
    pub lease: u64,
}

/// Refuses every late acquire of a ticket (C4).
#[derive(Clone, Copy, Debug)]
pub struct Tombstone {
    /// When the tombstone ends.
    pub until: u64,
    /// The release call that left it, which is answered `Yes` again.
    pub call: Option<Ticket>,
}

/// The state of one mutex or semaphore. No number is stored twice, so none can disagree.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// When the record was created; it identifies this life of the record. 0 if nothing was stored
    /// yet: then it is not kept.
    pub epoch: u64,
    /// The limit, once it is set.
    pub limit: Option<u32>,
    /// The last fencing token.
    pub token: u64,
    /// The holds, the oldest grant first.
    pub holds: Vec<Hold>,
    /// The waiters, in order of arrival.
    pub queue: Vec<QueuedWaiter>,
    /// The tickets that are refused.
    pub tombstones: HashMap<Ticket, Tombstone>,
    /// When the last hold ended.
    pub idle_since: u64,
    /// When the record may be removed, if it then has no holder and no waiter.
    pub forget_at: u64,
    /// Whether waiters may be granted now: at the end of the step, they get hints.
    pub(crate) stirred: bool,
}

impl Record {
    /// Ends holds, tombstones and waiters that are over by the server's clock. Called at the
    /// beginning of every step.
    pub(crate) fn reap(&mut self, at: &Moment<'_>) {
        let over = self.holds.iter().map(|hold| hold.expires).filter(|expires| *expires <= at.now);
        if let Some(ended) = over.max() {
            self.holds.retain(|hold| hold.expires > at.now);
            (self.idle_since, self.stirred) = (ended, true);
        }
        self.tombstones.retain(|_, tombstone| tombstone.until > at.now);
        self.drop_silent(at);
    }

    /// Grants, queues or refuses.
    pub(crate) fn acquire(&mut self, ask: &Acquire, at: &mut Moment<'_>) -> Result<Acquired> {
        at.mark_live();
        if self.tombstones.contains_key(&ask.ticket) {
            return Ok(Acquired::Cancelled);
        }
        // A retry: the same hold, the same token, and a new lease, because its holder counts from
        // the last request.
        if !at.makes(Mistake::GrantsAgain)
            && let Some(hold) = self.holds.iter_mut().find(|hold| hold.ticket == ask.ticket)
        {
            if !at.makes(Mistake::KeepsTheOldLease) {
                hold.expires = at.end_of(ask.lease);
            }
            return Ok(Acquired::Granted {
                token: hold.token,
                limit: self.limit.unwrap_or(ask.limit),
                epoch: 0,
            });
        }
        // What is refused changes nothing.
        let before = self.limit;
        let limit = match self.compare(ask, at) {
            Ok(limit) => limit,
            Err(stored) => return Ok(Acquired::Mismatch { stored }),
        };
        if ask.weight > limit {
            self.limit = before;
            self.leave(ask.ticket);
            return Ok(Acquired::TooLarge { limit });
        }
        if self.fits(ask.ticket, ask.weight, limit, at) {
            let token = self.grant(ask, at)?;
            self.limit = Some(limit);
            return Ok(Acquired::Granted { token, limit, epoch: 0 });
        }
        if !ask.queue {
            self.leave(ask.ticket);
        } else if !self.is_queued(ask.ticket) {
            if self.is_full(ask.max_waiters, at) {
                if !at.makes(Mistake::StoresRefusedLimits) {
                    self.limit = before;
                }
                return Ok(Acquired::Overloaded);
            }
            self.join(ask, at);
        }
        Ok(Acquired::Waiting { limit, epoch: self.epoch })
    }

    /// Returns the limit in force for a request; the stored one as an error, if the request refuses
    /// it (C20).
    fn compare(&mut self, ask: &Acquire, at: &Moment<'_>) -> Result<u32, u32> {
        let Some(stored) = self.limit_at(at) else { return Ok(ask.limit) };
        // A queued request was compared when it joined.
        if stored == ask.limit || self.is_queued(ask.ticket) {
            return Ok(stored);
        }
        match ask.check {
            ParameterCheck::First(OnMismatch::Replace) => {
                self.resize(ask.limit, at);
                Ok(ask.limit)
            }
            ParameterCheck::First(OnMismatch::Adopt) | ParameterCheck::Follow => Ok(stored),
            ParameterCheck::First(_) => Err(stored),
        }
    }

    /// Returns the stored limit, unless the name was idle for longer than limits are kept (C25).
    pub(crate) fn limit_at(&self, at: &Moment<'_>) -> Option<u32> {
        let in_use = !self.holds.is_empty() || !self.queue.is_empty();
        self.limit.filter(|_| {
            in_use || at.now < self.idle_since.saturating_add(at.client.retention.limits_micros())
        })
    }

    fn grant(&mut self, ask: &Acquire, at: &Moment<'_>) -> Result<FencingToken> {
        // Larger than every earlier token; by the clock, also if the earlier ones were lost (M2,
        // M3).
        let token = FencingToken::new(at.now.max(self.token + 1))?;
        let (granted, expires) = (at.now, at.end_of(ask.lease));
        let (ticket, weight, label) = (ask.ticket, ask.weight, ask.label.clone());
        self.leave(ticket);
        self.holds.push(Hold { ticket, weight, token, granted, expires, label });
        self.token = token.get();
        self.keep(expires, at);
        Ok(token)
    }

    /// Returns how many permits are out.
    pub(crate) fn used(&self) -> u64 {
        self.holds.iter().map(|hold| u64::from(hold.weight)).sum()
    }

    /// Renews a lease.
    pub(crate) fn renew(&mut self, ask: &Renew, at: &Moment<'_>) -> Kept {
        let Some(hold) = self.holds.iter_mut().find(|hold| hold.ticket == ask.ticket) else {
            return Kept::No;
        };
        hold.expires = at.end_of(ask.lease);
        self.keep(at.end_of(ask.lease), at);
        Kept::Yes
    }

    /// Ends a hold.
    pub(crate) fn release(&mut self, ask: &Release, at: &Moment<'_>) -> Kept {
        let call = ask.call.filter(|_| !at.makes(Mistake::ForgetsCalls));
        let freed = self.free(|hold| hold.ticket == ask.ticket, at);
        if call.is_some() && freed.is_empty() {
            let left_by = self.tombstones.get(&ask.ticket).and_then(|tombstone| tombstone.call);
            return if left_by == call { Kept::Yes } else { Kept::No };
        }
        if let Some(lasting) = ask.tombstone {
            self.leave(ask.ticket);
            self.leave_tombstone(ask.ticket, at.end_of(lasting), call, at);
        }
        if freed.is_empty() { Kept::No } else { Kept::Yes }
    }

    /// Cancels an acquisition. Leaves the tombstone that is asked for whatever it found: a copy of
    /// the acquire may still be in flight.
    pub(crate) fn cancel(&mut self, ask: &Cancel, at: &Moment<'_>) {
        self.leave(ask.ticket);
        self.free(|hold| hold.ticket == ask.ticket, at);
        if let Some(lasting) = ask.tombstone
            && !at.makes(Mistake::LeavesNoTombstone)
        {
            self.leave_tombstone(ask.ticket, at.end_of(lasting), None, at);
        }
    }

    /// Takes over a detached hold. A retry finds the hold under the new ticket.
    pub(crate) fn attach(&mut self, ask: &Attach, at: &Moment<'_>) -> Option<Attached> {
        if self.tombstones.contains_key(&ask.to) {
            return None;
        }
        let find = |ticket| self.holds.iter().position(|hold| hold.ticket == ticket);
        let any = || (at.makes(Mistake::AttachesAnything) && !self.holds.is_empty()).then_some(0);
        let moved = find(ask.to).or_else(|| find(ask.from)).or_else(any)?;
        let hold = &mut self.holds[moved];
        let (old, expired) = (hold.ticket, hold.expires);
        (hold.ticket, hold.expires) = (ask.to, at.end_of(ask.lease));
        hold.label = ask.label.clone().or(hold.label.take());
        let (attached, expires) =
            (Attached { token: hold.token, weight: hold.weight, epoch: 0 }, hold.expires);
        if old != ask.to {
            self.leave_tombstone(old, expires.max(expired), None, at);
        }
        self.keep(expires, at);
        Some(attached)
    }

    /// Releases holds by force. A late copy of a freed acquire must not get another hold.
    pub(crate) fn force(&mut self, force: Force, at: &Moment<'_>) -> u32 {
        let freed = self.free(|hold| force == Force::All || force == Force::One(hold.ticket), at);
        freed.iter().for_each(|hold| self.leave_tombstone(hold.ticket, hold.expires, None, at));
        u32::try_from(freed.len()).unwrap_or(u32::MAX)
    }

    /// Sets the limit. No holder loses a permit by it (S6).
    pub(crate) fn resize(&mut self, limit: u32, at: &Moment<'_>) {
        (self.limit, self.idle_since, self.stirred) = (Some(limit), at.now, true);
        self.keep(at.now, at);
    }

    pub(crate) fn inspect(&self, at: &Moment<'_>) -> Inspection {
        let holder = |hold: &Hold| {
            let mut holder = Holder::new(hold.ticket, hold.token, hold.weight, at.since(hold.granted));
            holder.label = hold.label.as_deref().map(str::to_owned);
            holder.lease_left = Some(at.until(hold.expires));
            holder
        };
        Inspection::new(self.holds.iter().map(holder).collect(), self.queue.len() as u64, self.limit_at(at))
    }

    fn free(&mut self, ends: impl Fn(&Hold) -> bool, at: &Moment<'_>) -> Vec<Hold> {
        let freed: Vec<Hold> = self.holds.extract_if(.., |hold| ends(hold)).collect();
        if !freed.is_empty() {
            (self.idle_since, self.stirred) = (at.now, true);
            self.keep(at.now, at);
        }
        freed
    }

    fn leave_tombstone(&mut self, ticket: Ticket, until: u64, call: Option<Ticket>, at: &Moment<'_>) {
        self.tombstones.insert(ticket, Tombstone { until, call });
        self.keep(until, at);
    }

    /// Keeps the record until the retention time after `until`. Marks it as stored.
    pub(crate) fn keep(&mut self, until: u64, at: &Moment<'_>) {
        self.epoch = if self.epoch == 0 { at.now } else { self.epoch };
        self.forget_at = self.forget_at.max(until.saturating_add(at.client.retention.tokens_micros()));
    }

    /// Returns whether the record can be removed without a loss.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        self.holds.is_empty() && self.queue.is_empty() && self.tombstones.is_empty() && self.forget_at <= now
    }
}
