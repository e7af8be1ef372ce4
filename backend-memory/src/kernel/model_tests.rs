//! The kernel against a simple model made of plain lists.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use stanchion_core::clock::{self, Instant};
use stanchion_core::observe::events::LossCause;
use stanchion_core::{HoldOptions, Ticket};

use super::{Arrival, Cause, Claim, Permits, Progress, Refusal, Terms, Transition, Waiter};
use crate::clock::{Moment, StoreClock};
use crate::session_id::SessionId;

#[derive(Clone, Copy, Debug)]
enum Op {
    Try { weight: u32, leased: bool },
    Enqueue { weight: u32, leased: bool },
    Cancel(usize),
    Poll(usize),
    Release(usize),
    ForceRelease(usize),
    Resize(u32),
    Advance(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let weight = 1..5_u32;
    let op = prop_oneof![
        2 => (weight.clone(), any::<bool>()).prop_map(|(weight, leased)| Op::Try { weight, leased }),
        4 => (weight, any::<bool>()).prop_map(|(weight, leased)| Op::Enqueue { weight, leased }),
        2 => any::<usize>().prop_map(Op::Cancel),
        4 => any::<usize>().prop_map(Op::Poll),
        4 => any::<usize>().prop_map(Op::Release),
        1 => any::<usize>().prop_map(Op::ForceRelease),
        1 => (1..6_u32).prop_map(Op::Resize),
        2 => (1..400_u64).prop_map(Op::Advance),
    ];
    prop::collection::vec(op, 1..120)
}

/// A request in the model, in one of its states.
#[derive(Clone, Debug, PartialEq)]
enum Status {
    Queued,
    Held {
        end: Option<Instant>,
    },
    TooLarge,
    /// Its hold ended before it was polled.
    Gone,
}

#[derive(Clone, Debug)]
struct Request {
    ticket: Ticket,
    /// `None` for an attempt, which never queues.
    arrival: Option<Arrival>,
    weight: u32,
    leased: bool,
    told: bool,
    status: Status,
}

/// All requests, in the order of their arrival.
struct Model {
    limit: u32,
    requests: Vec<Request>,
}

const LEASE: Duration = Duration::from_millis(500);

impl Model {
    fn used(&self) -> u32 {
        let held = self.requests.iter().filter(|request| matches!(request.status, Status::Held { .. }));
        held.map(|request| request.weight).sum()
    }

    fn free(&self) -> u32 {
        self.limit.saturating_sub(self.used())
    }

    fn queued(&self) -> usize {
        self.requests.iter().filter(|request| request.status == Status::Queued).count()
    }

    fn serve(&mut self, now: Instant) {
        while let Some(head) = self.requests.iter().position(|request| request.status == Status::Queued) {
            if self.requests[head].weight > self.free() {
                return;
            }
            let end = self.requests[head].leased.then(|| now + LEASE);
            self.requests[head].status = Status::Held { end };
        }
    }

    /// Ends holds at once; requests that were told of their hold are removed.
    fn end(&mut self, now: Instant, over: impl Fn(&Request) -> bool) {
        for request in &mut self.requests {
            if over(request) {
                request.status = Status::Gone;
            }
        }
        self.requests.retain(|request| request.status != Status::Gone || !request.told);
        self.serve(now);
    }

    fn pick(&self, index: usize, condition: impl Fn(&Request) -> bool) -> Option<usize> {
        let all: Vec<usize> = (0..self.requests.len()).filter(|i| condition(&self.requests[*i])).collect();
        (!all.is_empty()).then(|| all[index % all.len()])
    }
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct KernelAndModel {
    real: Permits,
    model: Model,
    clock: StoreClock,
    at: Moment,
    plain: Terms,
    leased: Terms,
    waker: Waker,
}

impl KernelAndModel {
    fn new(limit: u32) -> Self {
        let mut options = HoldOptions::default();
        let plain = Terms::new(&options).unwrap();
        (options.ttl, options.renew) = (Some(LEASE), false);
        let (clock, at) = (StoreClock::start(), Moment { now: clock::now(), micros: 1 });
        let mut real = Permits::new(0, None, None);
        real.set_limit(Some(limit), &mut Transition::at_moment(&clock, at));
        let model = Model { limit, requests: Vec::new() };
        let waker = Waker::from(Arc::new(Count::default()));
        Self { real, model, clock, at, plain, leased: Terms::new(&options).unwrap(), waker }
    }

    fn terms(&self, leased: bool) -> Terms {
        if leased { self.leased.clone() } else { self.plain.clone() }
    }

    fn step(&mut self, op: Op) {
        let (at, clock) = (self.at, self.clock);
        let transition = &mut Transition::at_moment(&clock, at);
        match op {
            Op::Try { weight, leased } => self.attempt(weight, leased, transition),
            Op::Enqueue { weight, leased } => self.enqueue(weight, leased, transition),
            Op::Cancel(index) => {
                if let Some(index) = self.model.pick(index, |request| !request.told) {
                    let request = self.model.requests.remove(index);
                    let arrival = request.arrival.unwrap();
                    self.real.cancel(arrival, request.ticket, transition);
                    self.model.serve(at.now);
                }
            }
            Op::Poll(index) => self.poll(index, transition),
            Op::Release(index) => {
                if let Some(index) = self.model.pick(index, |request| request.told) {
                    let request = self.model.requests.remove(index);
                    assert!(self.real.release(request.ticket, Cause::Finished, transition));
                    assert!(!self.real.release(request.ticket, Cause::Finished, transition));
                    self.model.serve(at.now);
                }
            }
            Op::ForceRelease(index) => {
                if let Some(index) =
                    self.model.pick(index, |request| matches!(request.status, Status::Held { .. }))
                {
                    let ticket = self.model.requests[index].ticket;
                    assert_eq!(
                        self.real.end_where(|grant| grant.ticket == ticket, LossCause::Forced, transition),
                        1
                    );
                    self.model.end(at.now, |request| request.ticket == ticket);
                }
            }
            Op::Resize(limit) => {
                self.real.set_limit(Some(limit), transition);
                self.model.limit = limit;
                for request in &mut self.model.requests {
                    if request.status == Status::Queued && request.weight > limit {
                        request.status = Status::TooLarge;
                    }
                }
                self.model.serve(at.now);
            }
            Op::Advance(millis) => {
                self.at.now += Duration::from_millis(millis);
                self.at.micros += millis * 1000;
                let at = self.at;
                let transition = &mut Transition::at_moment(&clock, at);
                self.real.reap(transition);
                let over = |end: Option<Instant>| end.is_some_and(|end| end <= at.now);
                self.model.end(at.now, |request| matches!(request.status, Status::Held { end } if over(end)));
            }
        }
    }

    fn attempt(&mut self, weight: u32, leased: bool, transition: &mut Transition<'_>) {
        let (at, ticket, terms) = (self.at, Ticket::random(), self.terms(leased));
        let claim = Claim { ticket, weight, session: SessionId::NONE, terms: &terms };
        let granted = self.real.try_grant(claim, transition).is_some();
        assert_eq!(granted, self.model.queued() == 0 && self.model.free() >= weight);
        if granted {
            let status = Status::Held { end: leased.then(|| at.now + LEASE) };
            self.model.requests.push(Request { ticket, arrival: None, weight, leased, told: true, status });
        }
    }

    fn enqueue(&mut self, weight: u32, leased: bool, transition: &mut Transition<'_>) {
        if weight > self.model.limit {
            return;
        }
        let arrival = self.real.arrive();
        let ticket = self.queue(arrival, weight, leased, transition);
        let status = Status::Queued;
        let request = Request { ticket, arrival: Some(arrival), weight, leased, told: false, status };
        self.model.requests.push(request);
        self.model.serve(self.at.now);
    }

    fn queue(
        &mut self,
        arrival: Arrival,
        weight: u32,
        leased: bool,
        transition: &mut Transition<'_>,
    ) -> Ticket {
        let (ticket, terms, waker) = (Ticket::random(), self.terms(leased), self.waker.clone());
        let waiter = Waiter { arrival, ticket, weight, session: SessionId::NONE, terms, waker };
        self.real.enqueue(waiter, transition);
        ticket
    }

    fn poll(&mut self, index: usize, transition: &mut Transition<'_>) {
        let Some(index) = self.model.pick(index, |request| !request.told) else {
            return;
        };
        let request = self.model.requests[index].clone();
        let (arrival, terms) = (request.arrival.unwrap(), self.terms(request.leased));
        let progress = self.real.poll(arrival, request.ticket, &terms, &self.waker, transition);
        match (progress, request.status) {
            (Progress::Queued, Status::Queued) => {}
            (Progress::Granted(_), Status::Held { end }) => {
                let end = end.map(|_| self.at.now + LEASE);
                let request = &mut self.model.requests[index];
                (request.told, request.status) = (true, Status::Held { end });
            }
            (Progress::Refused(Refusal::TooLarge { .. }), Status::TooLarge) => {
                self.model.requests.remove(index);
            }
            (Progress::Gone, Status::Gone) if request.weight > self.model.limit => {
                self.model.requests.remove(index);
            }
            (Progress::Gone, Status::Gone) => {
                let ticket = self.queue(arrival, request.weight, request.leased, transition);
                let request = &mut self.model.requests[index];
                (request.ticket, request.status) = (ticket, Status::Queued);
                self.model.serve(self.at.now);
            }
            differs => panic!("{differs:?}"),
        }
    }

    fn check(&self) {
        assert_eq!(self.real.used(), u64::from(self.model.used()));
        let free = self.real.limit().map_or(0, |limit| self.real.free(limit));
        assert_eq!(free, u64::from(self.model.free()));
        assert_eq!(self.real.queued(), self.model.queued());
        let refused = self.model.requests.iter().filter(|request| request.status == Status::TooLarge);
        assert_eq!(
            self.real.undelivered_refusals(),
            refused.count(),
            "refusals are kept for requests that are gone"
        );
        for request in &self.model.requests {
            let held = matches!(request.status, Status::Held { .. });
            assert_eq!(self.real.holds.get(request.ticket).is_some(), held, "{request:?}");
        }
        let holders = self.real.inspect(self.at).inspection().holders;
        assert!(holders.windows(2).all(|pair| pair[0].token < pair[1].token));
        let ends = self.model.requests.iter().filter_map(|request| match request.status {
            Status::Held { end } => end,
            _ => None,
        });
        if let Some(end) = ends.min() {
            assert!(self.real.next_end().is_some_and(|next| next <= end), "no waiter would check at {end:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn s1_the_kernel_does_what_the_model_does(limit in 1..6_u32, ops in ops()) {
        let mut both = KernelAndModel::new(limit);
        for op in ops {
            both.step(op);
            both.check();
        }
    }
}
