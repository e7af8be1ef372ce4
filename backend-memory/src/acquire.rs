//! The future of a request that may have to queue, and the methods of a handle that make one.

#[cfg(test)]
mod model_tests;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use stanchion_core::clock::{self, Alarm, Instant};
use stanchion_core::observe::events::WaitOutcome;
use stanchion_core::{Error, FencingToken, Result, Ticket};

use crate::kernel::{Arrival, Permits, Progress, Refusal, Transition, Waiter};
use crate::name_handle::{Granted, NameHandle};

/// An acquisition, first come, first served.
///
/// A release hands the hold to the head of the queue and wakes it: no other caller can overtake,
/// and the waiter need not ask again. A call dropped at any point leaves nothing behind (C4).
pub(crate) struct Acquire<'a> {
    handle: &'a NameHandle,
    operation: &'static str,
    weight: u32,
    ticket: Ticket,
    /// The arrival number in the queue, from the first poll until the outcome is known.
    arrival: Option<Arrival>,
    /// Since when it has waited, if it has.
    queued: Option<Instant>,
    alarm: Alarm,
}

impl<'a> Acquire<'a> {
    #[inline]
    pub(crate) fn new(handle: &'a NameHandle, operation: &'static str, weight: u32) -> Self {
        Self {
            handle,
            operation,
            queued: None,
            weight,
            ticket: Ticket::random_in_process(),
            arrival: None,
            alarm: Alarm::default(),
        }
    }

    /// Handles the first poll: grants at once, or takes a place at the end of the queue.
    #[inline]
    fn arrive(
        &mut self,
        permits: &mut Permits,
        transition: &mut Transition<'_>,
        waker: &Waker,
    ) -> Result<Option<FencingToken>> {
        self.handle.session.check_open()?;
        self.handle.admit(permits, self.weight, true, transition)?;
        if let Some(token) = permits.try_grant(self.handle.claim(self.ticket, self.weight), transition) {
            return Ok(Some(token));
        }
        let arrival = permits.arrive();
        self.arrival = Some(arrival);
        self.queued = Some(clock::now());
        permits.enqueue(self.waiter(arrival, waker), transition);
        Ok(None)
    }

    /// Handles every later poll: checks the progress of the queued request.
    #[inline]
    fn check_progress(
        &mut self,
        arrival: Arrival,
        permits: &mut Permits,
        transition: &mut Transition<'_>,
        waker: &Waker,
    ) -> Result<Option<FencingToken>> {
        match permits.poll(arrival, self.ticket, &self.handle.terms, waker, transition) {
            Progress::Granted(token) => return Ok(Some(token)),
            Progress::Refused(Refusal::Closed) => return Err(Error::closed()),
            Progress::Refused(Refusal::TooLarge { limit }) => {
                return Err(Error::over_limit(self.weight, limit));
            }
            // If the store lost its data, its waiters bring the limit again.
            Progress::Queued => self.handle.bring_limit(permits, transition),
            // The request was granted, and the hold was ended by force or expired before this
            // future was polled: queue it again at its old place.
            Progress::Gone => {
                self.handle.session.check_open()?;
                self.handle.admit(permits, self.weight, false, transition)?;
                self.ticket = Ticket::random_in_process();
                permits.enqueue(self.waiter(arrival, waker), transition);
            }
        }
        Ok(None)
    }

    #[inline]
    fn count(&mut self) {
        self.handle.meter.granted(self.operation);
        if let Some(waited) = self.end_wait(WaitOutcome::Granted) {
            self.handle.meter.waited(self.operation, waited);
        }
    }

    /// Records the end of the wait, if it had to wait; returns how long it did.
    #[inline]
    fn end_wait(&mut self, outcome: WaitOutcome) -> Option<Duration> {
        let waited = clock::now().saturating_duration_since(self.queued.take()?);
        self.handle.record_wait(self.operation, waited, outcome);
        Some(waited)
    }

    fn waiter(&self, arrival: Arrival, waker: &Waker) -> Waiter {
        Waiter {
            arrival,
            ticket: self.ticket,
            weight: self.weight,
            session: self.handle.session.id,
            terms: self.handle.terms.clone(),
            waker: waker.clone(),
        }
    }
}

impl NameHandle {
    /// Acquires, waiting in the queue without a timeout.
    #[inline]
    pub(crate) fn acquire(&self, operation: &'static str, weight: u32) -> Acquire<'_> {
        Acquire::new(self, operation, weight)
    }

    /// Acquires, waiting in the queue at most `timeout`; zero makes one attempt (C17).
    pub(crate) async fn acquire_for(
        &self,
        operation: &'static str,
        weight: u32,
        timeout: Duration,
    ) -> Result<Option<Granted>> {
        if timeout.is_zero() {
            return self.try_hold(operation, weight);
        }
        let until = clock::now().checked_add(timeout);
        let mut acquire = pin!(self.acquire(operation, weight));
        let mut alarm = Alarm::default();
        poll_fn(|cx| match acquire.as_mut().poll(cx) {
            Poll::Ready(granted) => Poll::Ready(granted.map(Some)),
            Poll::Pending => alarm.poll(cx, until).map(|()| {
                acquire.end_wait(WaitOutcome::TimedOut);
                self.meter.refused(operation);
                Ok(None)
            }),
        })
        .await
    }
}

impl Future for Acquire<'_> {
    type Output = Result<Granted>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            let mut next_end = None;
            let handle = this.handle;
            let token = handle.entry.change(|permits, transition| {
                permits.reap(transition);
                let token = match this.arrival {
                    None => this.arrive(permits, transition, cx.waker()),
                    Some(arrival) => this.check_progress(arrival, permits, transition, cx.waker()),
                };
                match token {
                    Ok(None) => next_end = permits.expect_end(transition),
                    Ok(Some(_)) => handle.saw_live(permits),
                    Err(_) => {}
                }
                token
            });
            let Some(ended) = token.transpose() else {
                if this.alarm.poll(cx, next_end).is_pending() {
                    return Poll::Pending;
                }
                continue;
            };
            this.arrival = None;
            if let Err(error) = &ended {
                this.end_wait(WaitOutcome::Failed(error.kind()));
            }
            let token = ended?;
            this.count();
            return Poll::Ready(Ok(Granted { ticket: this.ticket, token }));
        }
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        if let Some(arrival) = self.arrival {
            self.handle.entry.change(|permits, transition| permits.cancel(arrival, self.ticket, transition));
            self.end_wait(WaitOutcome::Cancelled);
        }
    }
}

impl fmt::Debug for Acquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("name", &self.handle.name)
            .field("weight", &self.weight)
            .finish_non_exhaustive()
    }
}
