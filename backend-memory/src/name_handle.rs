//! One caller's handle of a name, under mutexes, semaphores and wait groups; also the backend of
//! their guards.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::clock::{self, Instant};
use stanchion_core::engine::{Agreed, RecordSeen};
use stanchion_core::observe::audit::ForcedRelease;
use stanchion_core::observe::events::{EndedWait, LossCause, WaitOutcome};
use stanchion_core::observe::metering::Meter;
use stanchion_core::{
    Detached, Error, FencingToken, Hold, HoldBackend, HoldOptions, Inspection, Kind, Name, OnMismatch,
    Result, Ticket, Ttl,
};

use crate::alarm::wait_for_signal;
use crate::entry::Entry;
use crate::kernel::{Cause, Claim, Limit, Permits, Terms, Transition};
use crate::session::Session;

/// Maximum number of holds that a hold is split into under the lock of its name.
const PART: u32 = 500;

/// The ticket and the token of a new hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) ticket: Ticket,
    pub(crate) token: FencingToken,
}

/// A handle of a name, with the options of one caller.
pub(crate) struct NameHandle {
    kind: Kind,
    pub(crate) name: Name,
    pub(crate) session: Arc<Session>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) terms: Terms,
    pub(crate) max_waiters: Option<u32>,
    limit: Agreed<Limit>,
    record_seen: RecordSeen,
    pub(crate) meter: Meter,
}

impl NameHandle {
    /// Opens a handle with checked options.
    pub(crate) fn open(
        session: &Arc<Session>,
        kind: Kind,
        name: Name,
        options: &HoldOptions,
        limit: Limit,
        on_mismatch: OnMismatch,
    ) -> Result<Arc<Self>> {
        let terms = Terms::new(options)?;
        let entry = session.state.open(kind, &name);
        let meter = Meter::new(crate::STORE, kind, &name);
        Ok(Arc::new(Self {
            kind,
            name,
            session: Arc::clone(session),
            entry,
            terms,
            max_waiters: options.max_waiters,
            limit: Agreed::new(limit, on_mismatch),
            record_seen: RecordSeen::default(),
            meter,
        }))
    }

    /// Adds operation, store and name to an error (C21).
    pub(crate) fn context(&self, operation: &'static str) -> impl FnOnce(Error) -> Error {
        move |error| error.context(operation, crate::STORE, self.name.as_str())
    }

    /// Runs an operation on the current state, unless the store object was closed.
    pub(crate) fn with<R>(
        &self,
        operation: impl FnOnce(&mut Permits, &mut Transition<'_>) -> Result<R>,
    ) -> Result<R> {
        self.entry.change(|permits, transition| {
            self.session.check_open()?;
            permits.reap(transition);
            operation(permits, transition)
        })
    }

    /// Returns the limit for a request of that weight, after comparing it with the stored one at
    /// the first operation (C20). It is not stored yet: a request that is refused stores nothing.
    fn agreed(&self, permits: &Permits, weight: u32) -> Result<Limit> {
        let mismatch = |stored| Error::limit_mismatch(self.kind, self.limit.value(), stored);
        let limit = self.limit.settle(permits.limit()).map_err(mismatch)?;
        match limit {
            Some(most) if weight > most => Err(Error::over_limit(weight, most)),
            _ => Ok(limit),
        }
    }

    /// Checks a request against the limit and the bound of the queue, if it is to queue, and stores
    /// the limit (C20, C26, S2).
    pub(crate) fn admit(
        &self,
        permits: &mut Permits,
        weight: u32,
        queues: bool,
        transition: &mut Transition<'_>,
    ) -> Result<()> {
        let limit = self.agreed(permits, weight)?;
        if queues && let Some(most) = self.max_waiters {
            let waits = permits.queued() > 0 || permits.free(limit) < u64::from(weight);
            if waits && permits.queued() >= most as usize {
                return Err(Error::queue_full());
            }
        }
        if permits.limit() != Some(limit) {
            permits.set_limit(limit, transition);
        }
        self.limit.compared();
        Ok(())
    }

    /// Stores the limit if none is stored.
    pub(crate) fn bring_limit(&self, permits: &mut Permits, transition: &mut Transition<'_>) {
        if permits.limit().is_none() {
            permits.set_limit(self.limit.value(), transition);
        }
    }

    /// Notes that this caller has seen the wait group live.
    #[inline]
    pub(crate) fn saw_live(&self, permits: &Permits) {
        if let Some(generations) = &permits.generations {
            self.record_seen.follow(generations.record());
        }
    }

    /// Notes what this caller sees of the wait group. Fails if the record that it has seen live is
    /// gone: absent is not zero (W6).
    pub(crate) fn check_record(&self, permits: &Permits) -> Result<()> {
        let record = permits.generations.as_ref().map_or(0, |generations| generations.record());
        self.record_seen.check(record, permits.used())
    }

    /// Returns the number of permits that are free. Compares and stores nothing (C20).
    pub(crate) fn available(&self) -> Result<u64> {
        self.with(|permits, _| Ok(permits.free(permits.limit().unwrap_or_else(|| self.limit.value()))))
    }

    /// Changes the limit for all callers (S6).
    pub(crate) fn resize(&self, limit: u32) -> Result<()> {
        self.with(|permits, transition| {
            permits.set_limit(Some(limit), transition);
            self.limit.compared();
            Ok(())
        })
    }

    /// Makes one attempt, without waiting.
    #[inline]
    pub(crate) fn try_hold(&self, operation: &'static str, weight: u32) -> Result<Option<Granted>> {
        let ticket = Ticket::random_in_process();
        let token = self.with(|permits, transition| {
            self.admit(permits, weight, false, transition)?;
            let token = permits.try_grant(self.claim(ticket, weight), transition);
            if token.is_some() {
                self.saw_live(permits);
            }
            Ok(token)
        })?;
        self.meter.ended(operation, token.is_some());
        Ok(token.map(|token| Granted { ticket, token }))
    }

    /// Takes over a detached hold (C24).
    pub(crate) fn attach(&self, detached: &Detached) -> Result<(Granted, u32)> {
        detached.check(self.kind, &self.session.namespace, &self.name)?;
        let from = detached.ticket();
        let ticket = Ticket::random_in_process();
        self.with(|permits, transition| {
            let attached = permits.attach(from, self.claim(ticket, 0), transition);
            let (token, weight) = attached.ok_or_else(Error::lost)?;
            self.saw_live(permits);
            Ok((Granted { ticket, token }, weight))
        })
    }

    /// Ends the hold of a ticket, also if another caller has its guard.
    pub(crate) fn end(&self, ticket: Ticket, cause: Cause) -> Result<()> {
        self.with(|permits, transition| {
            transition.lost = true;
            if !permits.release(ticket, cause, transition) {
                return Err(Error::lost());
            }
            self.saw_live(permits);
            Ok(())
        })
    }

    /// Ends by force the hold of a ticket, or all holds; returns whether there were any.
    pub(crate) fn force_release(&self, operation: &'static str, ticket: Option<Ticket>) -> Result<bool> {
        let is_meant = |held| ticket.is_none_or(|ticket| ticket == held);
        let freed = self.with(|permits, transition| {
            Ok(permits.end_where(|grant| is_meant(grant.ticket), LossCause::Forced, transition))
        });
        let freed = freed.map(|freed| u64::try_from(freed).unwrap_or(u64::MAX));
        let (namespace, name, by) = (&*self.session.namespace, &self.name, self.terms.label());
        ForcedRelease { store: crate::STORE, namespace, operation, name, ticket, by }.record(&freed);
        freed.map(|freed| freed > 0).map_err(self.context(operation))
    }

    /// Splits a hold of that weight into holds of 1, a bounded number at a time, so that others can
    /// come between (C27); `None` if it ended meanwhile.
    pub(crate) fn split(&self, ticket: Ticket, weight: u32) -> Option<Vec<Granted>> {
        let mut parts = Vec::new();
        let mut left = weight;
        while left > 0 {
            let count = left.min(PART);
            left -= count;
            let Some(split) =
                self.entry.change(|permits, transition| permits.split(ticket, count, transition))
            else {
                for Granted { ticket, .. } in parts {
                    self.release_with(ticket, Cause::Cancelled);
                }
                return None;
            };
            parts.extend(split.into_iter().map(|(ticket, token)| Granted { ticket, token }));
        }
        Some(parts)
    }

    /// Records the end of a wait.
    pub(crate) fn record_wait(&self, operation: &'static str, waited: Duration, outcome: WaitOutcome) {
        let (store, kind, name) = (crate::STORE, self.kind, &self.name);
        let ended =
            EndedWait { store, namespace: &self.session.namespace, kind, name, operation, waited, outcome };
        ended.record(self.session.states.slow_wait());
    }

    pub(crate) fn inspect(&self) -> Result<Inspection> {
        let inspected = self.with(|permits, transition| Ok(permits.inspect(transition.at())))?;
        let inspection = inspected.inspection();
        self.meter.queue(inspection.waiters);
        Ok(inspection)
    }

    /// Returns the hold for a guard.
    pub(crate) fn hold(self: &Arc<Self>, granted: Granted, weight: u32) -> Hold {
        let backend = Arc::clone(self);
        Hold::new(backend, granted.ticket, granted.token, weight)
    }

    pub(crate) fn claim(&self, ticket: Ticket, weight: u32) -> Claim<'_> {
        Claim { ticket, weight, session: self.session.id, terms: &self.terms }
    }

    fn release_with(&self, ticket: Ticket, cause: Cause) -> bool {
        self.entry.change(|permits, transition| permits.release(ticket, cause, transition))
    }
}

#[async_trait]
impl HoldBackend for NameHandle {
    fn is_held(&self, ticket: Ticket) -> bool {
        self.entry.read(|permits| permits.is_held(ticket, clock::now))
    }

    fn deadline(&self, ticket: Ticket) -> Option<Instant> {
        self.entry.read(|permits| permits.deadline(ticket))
    }

    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn context(&self, operation: &'static str, error: Error) -> Error {
        Self::context(self, operation)(error)
    }

    async fn lost(&self, ticket: Ticket) {
        loop {
            let mut notified = pin!(self.entry.lost.notified());
            notified.as_mut().enable();
            if !self.is_held(ticket) {
                return;
            }
            wait_for_signal(notified, self.deadline(ticket)).await;
        }
    }

    fn abandon(&self, ticket: Ticket) {
        self.release_with(ticket, Cause::Abandoned);
    }

    async fn release(&self, ticket: Ticket) -> Result<()> {
        let released = self.entry.change(|permits, transition| {
            // A lost guard stays lost, and a member that is lost did not finish (C9, W4).
            let is_live = permits.is_held(ticket, || transition.at().now);
            let cause = if is_live { Cause::Finished } else { Cause::Abandoned };
            permits.release(ticket, cause, transition) && is_live
        });
        if released { Ok(()) } else { Err(Error::lost()).map_err(self.context("release")) }
    }

    async fn detach(&self, ticket: Ticket, token: FencingToken, lease: Ttl) -> Result<Detached> {
        let detached = self.with(|permits, transition| Ok(permits.detach(ticket, lease, transition)));
        let detached = detached.and_then(|detached| if detached { Ok(()) } else { Err(Error::lost()) });
        detached.map_err(self.context("detach"))?;
        Ok(Detached::new(self.kind, &self.session.namespace, &self.name, ticket, token))
    }
}

impl fmt::Debug for NameHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, session, .. } = self;
        let mut shown = f.debug_struct("NameHandle");
        shown.field("kind", kind).field("name", name).field("session", session).finish_non_exhaustive()
    }
}

impl Drop for NameHandle {
    fn drop(&mut self) {
        self.session.state.leave(self.kind, &self.name);
    }
}
