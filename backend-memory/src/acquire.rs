//! The future of a request that may have to queue.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use stanchion_core::{Error, ErrorKind, Result, Ticket};

use crate::alarm::Alarm;
use crate::clock::Moment;
use crate::handle::{Granted, Handle, over_limit};
use crate::kernel::{Arrival, Permits, Progress, Refusal, Signals, Waiter};

/// Acquires, first come, first served.
///
/// A release hands the hold to the head of the queue and wakes it: nobody can overtake, and nothing has to be asked
/// for again. Dropped at any point it leaves nothing behind (C4).
pub(crate) struct Acquire<'a> {
    handle: &'a Handle,
    weight: u32,
    /// The place in the queue, from the first look until the outcome is known.
    place: Option<Place>,
    alarm: Alarm,
}

#[derive(Clone, Copy)]
struct Place {
    arrival: Arrival,
    ticket: Ticket,
}

/// What one look found.
enum Look {
    Granted(Granted),
    Queued(Place),
}

impl<'a> Acquire<'a> {
    pub(crate) fn new(handle: &'a Handle, weight: u32) -> Self {
        Self { handle, weight, place: None, alarm: Alarm::default() }
    }

    /// A grant at once, or a place at the end of the queue.
    fn arrive(
        &self,
        permits: &mut Permits,
        at: Moment,
        signals: &mut Signals,
        waker: &Waker,
    ) -> Result<Look> {
        let ticket = Ticket::random();
        self.admit(permits, at, signals)?;
        if let Some(token) = permits.try_grant(self.handle.claim(ticket, self.weight), at, signals) {
            return Ok(Look::Granted(Granted { ticket, token }));
        }
        let most =
            self.handle.max_waiters.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        if permits.queued() >= most {
            return Err(Error::new(ErrorKind::Overloaded, "the queue is at its bound `max_waiters`"));
        }
        let place = Place { arrival: permits.arrive(), ticket };
        permits.enqueue(self.waiter(place, waker), at, signals);
        Ok(Look::Queued(place))
    }

    /// What became of the place in the queue.
    fn ask(
        &self,
        place: Place,
        permits: &mut Permits,
        at: Moment,
        signals: &mut Signals,
        waker: &Waker,
    ) -> Result<Look> {
        let Place { arrival, ticket } = place;
        match permits.poll(arrival, ticket, &self.handle.terms, waker, at.now) {
            Progress::Granted(token) => return Ok(Look::Granted(Granted { ticket, token })),
            Progress::Refused(Refusal::Closed) => return Err(Error::closed()),
            Progress::Refused(Refusal::TooLarge { limit }) => return Err(over_limit(self.weight, limit)),
            Progress::Queued => {}
            // It was granted and freed by force, or it expired, before this future was polled: still the first.
            Progress::Gone => {
                self.admit(permits, at, signals)?;
                let place = Place { arrival, ticket: Ticket::random() };
                permits.enqueue(self.waiter(place, waker), at, signals);
                return Ok(Look::Queued(place));
            }
        }
        if permits.limit().is_none() {
            // The store lost its data: bring it the limit again.
            self.handle.settle(permits, at, signals)?;
        }
        Ok(Look::Queued(place))
    }

    fn admit(&self, permits: &mut Permits, at: Moment, signals: &mut Signals) -> Result<()> {
        self.handle.session.check_open()?;
        self.handle.settle(permits, at, signals)?;
        self.handle.check_weight(permits, self.weight)
    }

    fn waiter(&self, place: Place, waker: &Waker) -> Waiter {
        Waiter {
            arrival: place.arrival,
            ticket: place.ticket,
            weight: self.weight,
            session: self.handle.session.id,
            terms: self.handle.terms.clone(),
            waker: waker.clone(),
        }
    }
}

impl Future for Acquire<'_> {
    type Output = Result<Granted>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            let at = this.handle.now();
            let (look, next_end) = this.handle.entry.change(|permits, signals| {
                permits.reap(at, signals);
                let look = match this.place {
                    None => this.arrive(permits, at, signals, cx.waker()),
                    Some(place) => this.ask(place, permits, at, signals, cx.waker()),
                };
                (look, permits.next_end())
            });
            match look {
                Ok(Look::Queued(place)) => this.place = Some(place),
                Ok(Look::Granted(granted)) => {
                    this.place = None;
                    return Poll::Ready(Ok(granted));
                }
                Err(error) => {
                    this.place = None;
                    return Poll::Ready(Err(error));
                }
            }
            if this.alarm.poll(cx, next_end).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        if let Some(Place { arrival, ticket }) = self.place {
            let at = self.handle.now();
            self.handle.entry.change(|permits, signals| permits.cancel(arrival, ticket, at, signals));
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
