//! One name as the contract describes it: holds, a limit, a queue and generations, in plain lists.

use std::time::Duration;

use stanchion_core::clock::Instant;
use stanchion_core::{HoldOptions, Inspection, OnMismatch, Outcome, Ticket, Ttl};

/// How many may be held; `None` is a wait group without a limit.
pub(crate) type Limit = Option<u32>;

/// What one caller's object was made with, and whether its limit was compared (C20).
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The store object.
    pub(crate) client: usize,
    pub(crate) limit: Limit,
    pub(crate) on_mismatch: OnMismatch,
    pub(crate) hold: HoldOptions,
    pub(crate) settled: bool,
}

impl Terms {
    /// The lease of a hold granted now: deadline and end.
    fn lease(&self, now: Instant) -> Option<Lease> {
        let options = &self.hold;
        let fixed = if options.renew { None } else { options.ttl };
        let end = fixed.into_iter().chain(options.max_hold).min()?;
        let first = options.first_lease().unwrap();
        let margin = first.get() - first.belief();
        Some(Lease { deadline: now + (end - margin), end: now + end })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lease {
    pub(crate) deadline: Instant,
    pub(crate) end: Instant,
}

#[derive(Clone, Debug)]
pub(crate) struct Hold {
    /// The store's, once it told it.
    pub(crate) ticket: Option<Ticket>,
    /// The call that was granted it.
    call: usize,
    pub(crate) weight: u32,
    /// The store object whose guard keeps it; none while it is detached.
    client: Option<usize>,
    pub(crate) since: Instant,
    pub(crate) lease: Option<Lease>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Finished,
    Abandoned,
    Expired,
    Cancelled,
}

/// How a queued call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Granted,
    TooLarge,
    Closed,
}

#[derive(Clone, Debug)]
struct Queued {
    call: usize,
    weight: u32,
    terms: Terms,
}

/// How a generation of a wait group ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Zero(Outcome),
    Lost,
}

/// Why an operation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Mismatch,
    TooLarge,
    Overloaded,
}

/// The name.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) now: Instant,
    pub(crate) limit: Option<Limit>,
    pub(crate) holds: Vec<Hold>,
    queue: Vec<Queued>,
    /// Of calls that have left the queue and were not told.
    fates: Vec<(usize, Fate)>,
    tally: Outcome,
    is_open: bool,
    pub(crate) last: Outcome,
    exists: bool,
    /// How often the data was lost.
    losses: u32,
    /// How each generation ended, in order; the next one is open or to come.
    pub(crate) ends: Vec<End>,
}

impl Model {
    pub(crate) fn new(now: Instant) -> Self {
        let (tally, last) = (Outcome::default(), Outcome::default());
        let (holds, queue, fates, ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (limit, is_open, exists, losses) = (None, false, false, 0);
        Self { now, limit, holds, queue, fates, tally, is_open, last, exists, losses, ends }
    }

    /// The number of the record; 0 if there is none.
    pub(crate) fn record(&self) -> u32 {
        if self.exists { self.losses + 1 } else { 0 }
    }

    pub(crate) fn used(&self) -> u32 {
        self.holds.iter().map(|hold| hold.weight).sum()
    }

    /// `None` without a limit.
    pub(crate) fn free(&self) -> Option<u32> {
        self.limit.unwrap_or(Some(0)).map(|limit| limit.saturating_sub(self.used()))
    }

    fn fits(&self, weight: u32) -> bool {
        self.free().is_none_or(|free| weight <= free)
    }

    pub(crate) fn hold(&self, ticket: Ticket) -> Option<&Hold> {
        self.holds.iter().find(|hold| hold.ticket == Some(ticket))
    }

    pub(crate) fn is_held(&self, ticket: Ticket) -> bool {
        let hold = self.hold(ticket);
        hold.is_some_and(|hold| hold.lease.is_none_or(|lease| self.now < lease.deadline))
    }

    /// Time has passed.
    pub(crate) fn advance(&mut self, by: Duration) {
        self.now += by;
        let now = self.now;
        self.end(Cause::Expired, |hold| hold.lease.is_some_and(|lease| lease.end <= now));
    }

    /// Ends holds and tells how many.
    pub(crate) fn end(&mut self, cause: Cause, which: impl Fn(&Hold) -> bool) -> usize {
        let before = self.holds.len();
        for hold in self.holds.extract_if(.., |hold| which(hold)) {
            let weight = u64::from(hold.weight);
            match cause {
                Cause::Finished => self.tally.finished += weight,
                Cause::Abandoned => self.tally.abandoned += weight,
                Cause::Expired => self.tally.expired += weight,
                Cause::Cancelled => {}
            }
        }
        if self.holds.is_empty() && self.is_open {
            let tally = std::mem::take(&mut self.tally);
            self.last = if tally == Outcome::default() { self.last } else { tally };
            self.is_open = false;
            self.ends.push(End::Zero(self.last));
        }
        let ended = before - self.holds.len();
        self.serve();
        ended
    }

    pub(crate) fn end_ticket(&mut self, ticket: Ticket, cause: Cause) -> bool {
        self.end(cause, |hold| hold.ticket == Some(ticket)) > 0
    }

    fn serve(&mut self) {
        while self.queue.first().is_some_and(|head| self.fits(head.weight)) {
            let Queued { call, weight, terms } = self.queue.remove(0);
            self.grant(call, weight, &terms);
            self.fates.push((call, Fate::Granted));
        }
    }

    fn grant(&mut self, call: usize, weight: u32, terms: &Terms) {
        let (since, lease) = (self.now, terms.lease(self.now));
        self.holds.push(Hold { ticket: None, call, weight, client: Some(terms.client), since, lease });
        (self.is_open, self.exists) = (true, true);
    }

    pub(crate) fn set_limit(&mut self, limit: Limit) {
        self.limit = Some(limit);
        if let Some(limit) = limit {
            self.refuse(Fate::TooLarge, |queued| queued.weight > limit);
        }
        self.serve();
    }

    fn refuse(&mut self, fate: Fate, which: impl Fn(&Queued) -> bool) {
        let refused = self.queue.extract_if(.., |queued| which(queued));
        self.fates.extend(refused.map(|queued| (queued.call, fate)));
    }

    /// The limit for a request of that weight, compared and stored unless the request is refused
    /// (C20, C26).
    fn settle(&mut self, weight: u32, queues: bool, terms: &mut Terms) -> Result<(), Refusal> {
        let limit = match self.limit {
            Some(stored) if stored != terms.limit && !terms.settled => match terms.on_mismatch {
                OnMismatch::Adopt => stored,
                OnMismatch::Replace => terms.limit,
                _ => return Err(Refusal::Mismatch),
            },
            Some(stored) => stored,
            None => terms.limit,
        };
        if limit.is_some_and(|limit| weight > limit) {
            return Err(Refusal::TooLarge);
        }
        let waits = !self.queue.is_empty() || limit.is_some_and(|limit| self.used() + weight > limit);
        let is_full = terms.hold.max_waiters.is_some_and(|most| self.queue.len() >= most as usize);
        if queues && waits && is_full {
            return Err(Refusal::Overloaded);
        }
        if self.limit != Some(limit) {
            self.set_limit(limit);
        }
        terms.settled = true;
        Ok(())
    }

    /// One attempt: whether it is granted.
    pub(crate) fn attempt(&mut self, call: usize, weight: u32, terms: &mut Terms) -> Result<bool, Refusal> {
        self.settle(weight, false, terms)?;
        Ok(self.grant_now(call, weight, terms))
    }

    fn grant_now(&mut self, call: usize, weight: u32, terms: &Terms) -> bool {
        let granted = self.queue.is_empty() && self.fits(weight);
        if granted {
            self.grant(call, weight, terms);
        }
        granted
    }

    /// The same with a place in the queue where it is not granted.
    pub(crate) fn request(&mut self, call: usize, weight: u32, terms: &mut Terms) -> Result<bool, Refusal> {
        self.settle(weight, true, terms)?;
        let granted = self.grant_now(call, weight, terms);
        if !granted {
            self.queue.push(Queued { call, weight, terms: terms.clone() });
            self.serve();
        }
        Ok(granted)
    }

    /// What a queued call is told; a grant's lease begins then.
    pub(crate) fn ask(&mut self, call: usize, terms: &mut Terms) -> Option<Fate> {
        let Some(index) = self.fates.iter().position(|(id, _)| *id == call) else {
            if self.limit.is_none() {
                // The store lost its data: whoever waits brings the limit again.
                self.set_limit(terms.limit);
            }
            return None;
        };
        let fate = self.fates.remove(index).1;
        if let Some(hold) = self.holds.iter_mut().find(|hold| hold.call == call) {
            (hold.since, hold.lease) = (self.now, terms.lease(self.now));
        }
        Some(fate)
    }

    /// Whether a queued call has an answer that it was not told.
    pub(crate) fn has_answer(&self, call: usize) -> bool {
        self.fates.iter().any(|(id, _)| *id == call)
    }

    /// Withdraws a call, whatever became of it.
    pub(crate) fn cancel(&mut self, call: usize) {
        self.fates.retain(|(id, _)| *id != call);
        self.queue.retain(|queued| queued.call != call);
        self.end(Cause::Cancelled, |hold| hold.call == call);
    }

    /// A granted call gets its tickets: one for all, or one for each member.
    pub(crate) fn name(&mut self, call: usize, tickets: &[Ticket]) {
        let index = self.holds.iter().position(|hold| hold.call == call && hold.ticket.is_none()).unwrap();
        let whole = self.holds.remove(index);
        let weight = if tickets.len() > 1 { 1 } else { whole.weight };
        let named = |ticket: &Ticket| Hold { ticket: Some(*ticket), weight, ..whole.clone() };
        self.holds.extend(tickets.iter().map(named));
    }

    pub(crate) fn detach(&mut self, ticket: Ticket, ttl: Ttl) -> bool {
        if !self.is_held(ticket) {
            // The call drops its guard.
            self.end_ticket(ticket, Cause::Abandoned);
            return false;
        }
        let now = self.now;
        let Some(hold) = self.holds.iter_mut().find(|hold| hold.ticket == Some(ticket)) else { return false };
        hold.client = None;
        hold.lease = Some(Lease { deadline: now + ttl.belief(), end: now + ttl.get() });
        true
    }

    /// Whether a detached hold of that ticket can be had.
    pub(crate) fn is_detached(&self, ticket: Ticket) -> bool {
        self.hold(ticket).is_some_and(|hold| hold.client.is_none())
    }

    pub(crate) fn attach(&mut self, from: Ticket, to: Ticket, terms: &Terms) {
        let lease = terms.lease(self.now);
        let hold = self.holds.iter_mut().find(|hold| hold.ticket == Some(from)).unwrap();
        (hold.ticket, hold.client, hold.lease) = (Some(to), Some(terms.client), lease);
    }

    /// A store object is closed (C12).
    pub(crate) fn close(&mut self, client: usize) {
        self.refuse(Fate::Closed, |queued| queued.terms.client == client);
        self.end(Cause::Abandoned, |hold| hold.client == Some(client));
    }

    /// The store loses its data; who waits keeps waiting.
    pub(crate) fn forget(&mut self) {
        self.holds.clear();
        (self.limit, self.tally, self.last) = (None, Outcome::default(), Outcome::default());
        (self.is_open, self.exists) = (false, false);
        self.losses += 1;
        self.ends.push(End::Lost);
    }
}

impl Model {
    /// What `inspect` tells is what is (C23).
    pub(crate) fn agrees(&self, inspection: &Inspection) {
        assert_eq!(inspection.limit, self.limit.flatten());
        assert_eq!(inspection.waiters, u64::try_from(self.queue.len()).unwrap());
        assert_eq!(inspection.holders.len(), self.holds.len(), "{inspection:?} {:?}", self.holds);
        assert!(inspection.holders.is_sorted_by(|a, b| a.token < b.token));
        for holder in &inspection.holders {
            let hold = self.hold(holder.ticket.expect("a ticket")).expect("a hold of the model's");
            let left = hold.lease.map(|lease| lease.end - self.now);
            let told = (holder.weight, holder.age, holder.lease_left);
            assert_eq!(told, (hold.weight, Some(self.now - hold.since), left));
        }
    }
}
