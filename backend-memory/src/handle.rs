//! What a mutex, a semaphore and a wait group of one caller are made of, and what keeps their guards.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::clock::{self, Instant};
use stanchion_core::{
    Error, ErrorKind, FencingToken, Hold, HoldBackend, HoldOptions, Inspection, Kind, Name, OnMismatch,
    Result, Ticket, Ttl,
};

use crate::acquire::Acquire;
use crate::alarm::{Alarm, sign_or};
use crate::entry::Entry;
use crate::kernel::{Cause, Claim, Limit, Permits, Terms, Turn};
use crate::session::Session;
use crate::sync::atomic::{AtomicBool, Ordering};

/// A hold as it was granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) ticket: Ticket,
    pub(crate) token: FencingToken,
}

/// A name, as one caller uses it.
#[derive(Debug)]
pub(crate) struct Handle {
    kind: Kind,
    pub(crate) name: Name,
    pub(crate) session: Arc<Session>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) terms: Terms,
    pub(crate) max_waiters: Option<u32>,
    limit: Limit,
    on_mismatch: OnMismatch,
    /// Whether the limit was compared (C20).
    settled: AtomicBool,
    /// Whether this caller has seen the wait group live (W6).
    pub(crate) seen_live: AtomicBool,
}

impl Handle {
    /// A handle by checked options.
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
        Ok(Arc::new(Self {
            kind,
            name,
            session: Arc::clone(session),
            entry,
            terms,
            max_waiters: options.max_waiters,
            limit,
            on_mismatch,
            settled: AtomicBool::new(false),
            seen_live: AtomicBool::new(false),
        }))
    }

    /// Adds operation, store and name to an error (C21).
    pub(crate) fn context(&self, operation: &'static str) -> impl FnOnce(Error) -> Error {
        move |error| error.context(operation, crate::STORE, self.name.as_str())
    }

    /// Runs an operation on the state as it is now, unless the store object was closed.
    pub(crate) fn with<R>(
        &self,
        operation: impl FnOnce(&mut Permits, &mut Turn<'_>) -> Result<R>,
    ) -> Result<R> {
        self.entry.change(|permits, turn| {
            self.session.check_open()?;
            permits.reap(turn);
            operation(permits, turn)
        })
    }

    /// Compares the limit at the first operation; stores it where there is none (C20).
    pub(crate) fn settle(&self, permits: &mut Permits, turn: &mut Turn<'_>) -> Result<()> {
        let Some(stored) = permits.limit() else {
            permits.set_limit(self.limit, turn);
            self.settled.store(true, Ordering::Relaxed);
            return Ok(());
        };
        if stored != self.limit && !self.settled.load(Ordering::Relaxed) {
            match self.on_mismatch {
                OnMismatch::Refuse => return Err(mismatch(self.limit, stored)),
                OnMismatch::Adopt => {}
                OnMismatch::Replace => permits.set_limit(self.limit, turn),
            }
        }
        self.settled.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Checks a weight against the limit in force (S2).
    pub(crate) fn check_weight(&self, permits: &Permits, weight: u32) -> Result<()> {
        match permits.limit().flatten() {
            Some(limit) if weight > limit => Err(over_limit(weight, limit)),
            _ => Ok(()),
        }
    }

    /// Changes the limit for everybody (S6).
    pub(crate) fn resize(&self, limit: u32) -> Result<()> {
        self.with(|permits, turn| {
            permits.set_limit(Some(limit), turn);
            self.settled.store(true, Ordering::Relaxed);
            Ok(())
        })
    }

    /// One attempt.
    #[inline]
    pub(crate) fn try_hold(&self, weight: u32) -> Result<Option<Granted>> {
        let ticket = Ticket::random();
        let token = self.with(|permits, turn| {
            self.settle(permits, turn)?;
            self.check_weight(permits, weight)?;
            Ok(permits.try_grant(self.claim(ticket, weight), turn))
        })?;
        Ok(token.map(|token| Granted { ticket, token }))
    }

    /// Waits in the queue for as long as it takes.
    #[inline]
    pub(crate) fn acquire(&self, weight: u32) -> Acquire<'_> {
        Acquire::new(self, weight)
    }

    /// Waits in the queue at most this long; zero is one attempt (C17).
    pub(crate) async fn acquire_for(&self, weight: u32, limit: Duration) -> Result<Option<Granted>> {
        if limit.is_zero() {
            return self.try_hold(weight);
        }
        let until = clock::now().checked_add(limit);
        let mut acquire = pin!(self.acquire(weight));
        let mut alarm = Alarm::default();
        poll_fn(|cx| match acquire.as_mut().poll(cx) {
            Poll::Ready(granted) => Poll::Ready(granted.map(Some)),
            Poll::Pending => alarm.poll(cx, until).map(|()| Ok(None)),
        })
        .await
    }

    /// Takes over a detached hold (C24).
    pub(crate) fn attach(&self, from: Ticket) -> Result<(Granted, u32)> {
        let ticket = Ticket::random();
        self.with(|permits, turn| {
            let attached = permits.attach(from, self.claim(ticket, 0), turn);
            let (token, weight) = attached.ok_or_else(Error::lost)?;
            Ok((Granted { ticket, token }, weight))
        })
    }

    /// Ends the hold of a ticket, whoever keeps its guard.
    pub(crate) fn end(&self, ticket: Ticket, cause: Cause) -> Result<()> {
        self.with(|permits, turn| {
            turn.lost = true;
            if permits.release(ticket, cause, turn) { Ok(()) } else { Err(Error::lost()) }
        })
    }

    /// Frees the holds of the tickets that meet a condition, and tells how many.
    pub(crate) fn free(&self, condition: impl Fn(Ticket) -> bool) -> Result<usize> {
        self.with(|permits, turn| Ok(permits.free(|grant| condition(grant.ticket), turn)))
    }

    /// Makes holds of 1 out of a larger one.
    pub(crate) fn split(&self, ticket: Ticket, count: u32) -> Vec<Granted> {
        let parts = self.entry.change(|permits, turn| permits.split(ticket, count, turn));
        parts.into_iter().map(|(ticket, token)| Granted { ticket, token }).collect()
    }

    pub(crate) fn inspect(&self) -> Result<Inspection> {
        self.with(|permits, turn| Ok(permits.inspect(turn.at())))
    }

    /// A hold for a guard.
    pub(crate) fn hold(self: &Arc<Self>, granted: Granted, weight: u32) -> Hold {
        let keeper = Arc::clone(self);
        Hold::new(keeper, granted.ticket, granted.token, weight)
    }

    pub(crate) fn claim(&self, ticket: Ticket, weight: u32) -> Claim<'_> {
        Claim { ticket, weight, session: self.session.id, terms: &self.terms }
    }

    fn release_with(&self, ticket: Ticket, cause: Cause) -> bool {
        self.entry.change(|permits, turn| permits.release(ticket, cause, turn))
    }
}

pub(crate) fn over_limit(weight: u32, limit: u32) -> Error {
    Error::invalid_argument(format!("{weight} at once is over the limit of {limit}"))
}

fn mismatch(ours: Limit, stored: Limit) -> Error {
    let show = |limit: Limit| limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let detail = format!("the limit given is {}, the store's is {}", show(ours), show(stored));
    Error::new(ErrorKind::ConfigMismatch, detail)
}

#[async_trait]
impl HoldBackend for Handle {
    fn is_held(&self, ticket: Ticket) -> bool {
        self.entry.look(|permits| permits.is_held(ticket, clock::now))
    }

    fn deadline(&self, ticket: Ticket) -> Option<Instant> {
        self.entry.look(|permits| permits.deadline(ticket))
    }

    async fn lost(&self, ticket: Ticket) {
        loop {
            let mut told = pin!(self.entry.lost.notified());
            told.as_mut().enable();
            if !self.is_held(ticket) {
                return;
            }
            sign_or(told, self.deadline(ticket)).await;
        }
    }

    fn abandon(&self, ticket: Ticket) {
        self.release_with(ticket, Cause::Abandoned);
    }

    async fn release(&self, ticket: Ticket) -> Result<()> {
        let released = self.release_with(ticket, Cause::Finished);
        if released { Ok(()) } else { Err(Error::lost()).map_err(self.context("release")) }
    }

    async fn detach(&self, ticket: Ticket, lease: Ttl) -> Result<Ticket> {
        let detached = self.with(|permits, turn| Ok(permits.detach(ticket, lease, turn)));
        let detached = detached.and_then(|detached| if detached { Ok(ticket) } else { Err(Error::lost()) });
        detached.map_err(self.context("detach"))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.session.state.leave(self.kind, &self.name);
    }
}
