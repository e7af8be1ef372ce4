//! Mutexes and semaphores beside the model.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use stanchion_core::clock;
use stanchion_core::{ErrorKind, FencingToken, Result, Store, Ticket, Ttl};
use stanchion_memory::MemoryStore;

use crate::common::{Polled, kind, now};
use crate::sequential::RETENTION;
use crate::sequential::model::{Cause, Fate, Model, Refusal, Terms};
pub(crate) use crate::sequential::real::What;
use crate::sequential::real::{Guard, Real};
use crate::sequential::terms::{CLIENTS, HANDLES};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Try { handle: usize, weight: u32 },
    Call { handle: usize, weight: u32, millis: Option<u64> },
    GiveUp(usize),
    Drop(usize),
    Release(usize),
    Reenter(usize),
    Detach(usize, u64),
    Attach { handle: usize, ticket: usize },
    Force { handle: usize, ticket: usize },
    Resize { handle: usize, limit: u32 },
    Available(usize),
    Advance(u64),
    Close(usize),
    LoseData,
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let handle = || 0..HANDLES;
    let weight = || prop_oneof![8 => 1..4_u32, 1 => 0..7_u32];
    let millis = || prop_oneof![2 => Just(None), 2 => (1..600_u64).prop_map(Some), 1 => Just(Some(0))];
    let any = any::<usize>;
    let op = prop_oneof![
        6 => (handle(), weight()).prop_map(|(handle, weight)| Op::Try { handle, weight }),
        12 => (handle(), weight(), millis())
            .prop_map(|(handle, weight, millis)| Op::Call { handle, weight, millis }),
        3 => any().prop_map(Op::GiveUp),
        6 => any().prop_map(Op::Drop),
        6 => any().prop_map(Op::Release),
        2 => any().prop_map(Op::Reenter),
        4 => (any(), 60..900_u64).prop_map(|(guard, lease)| Op::Detach(guard, lease)),
        4 => (handle(), any()).prop_map(|(handle, ticket)| Op::Attach { handle, ticket }),
        2 => (handle(), any()).prop_map(|(handle, ticket)| Op::Force { handle, ticket }),
        2 => (handle(), 0..6_u32).prop_map(|(handle, limit)| Op::Resize { handle, limit }),
        1 => handle().prop_map(Op::Available),
        8 => (1..500_u64).prop_map(Op::Advance),
        1 => (0..CLIENTS * 3).prop_map(Op::Close),
        1 => Just(Op::LoseData),
    ];
    prop::collection::vec(op, 1..80)
}

/// A call that waits.
struct Pending {
    id: usize,
    handle: usize,
    until: Option<clock::Instant>,
    real: Polled<'static, Result<Option<Guard>>>,
    /// How often it was woken before its last poll.
    woken: usize,
}

struct World {
    model: Model,
    store: MemoryStore,
    clients: Vec<MemoryStore>,
    closed: Vec<bool>,
    handles: Vec<(Real, Terms)>,
    /// Looks on, and is never closed.
    onlooker: Real,
    /// The guards of each hold.
    guards: Vec<Vec<Guard>>,
    calls: Vec<Pending>,
    count: usize,
    tokens: HashMap<Ticket, FencingToken>,
    tickets: Vec<Ticket>,
    /// The largest token since the store lost its data.
    largest: Option<FencingToken>,
}

pub(crate) async fn run(what: What, terms: Vec<Terms>, ops: Vec<Op>) {
    let store = MemoryStore::new();
    let clients: Vec<MemoryStore> = (0..CLIENTS).map(|_| store.client()).collect();
    let onlooker = Real::open(what, &store, &terms[0]);
    let handles =
        terms.into_iter().map(|terms| (Real::open(what, &clients[terms.client], &terms), terms)).collect();
    let mut world = World {
        model: Model::new(clock::now()),
        store,
        clients,
        closed: vec![false; CLIENTS],
        handles,
        onlooker,
        guards: Vec::new(),
        calls: Vec::new(),
        count: 0,
        tokens: HashMap::new(),
        tickets: Vec::new(),
        largest: None,
    };
    for op in ops {
        world.step(op).await;
        world.settle();
        world.check();
    }
    let store = world.store.clone();
    drop(world);
    // Those that were detached end by themselves.
    tokio::time::advance(Duration::from_secs(2)).await;
    // What is kept for the retention time goes with it (C20).
    tokio::time::advance(RETENTION).await;
    assert!(store.is_empty(), "state is left of a name nobody uses (C25)");
}

/// An operation's answer and the model's: an error of the same kind, or what `same` compares.
pub(crate) fn agree<T: std::fmt::Debug, U>(
    real: Result<T>,
    model: std::result::Result<U, ErrorKind>,
) -> Option<(T, U)> {
    match (real, model) {
        (Ok(real), Ok(model)) => return Some((real, model)),
        (Err(error), Err(kind)) => assert_eq!(error.kind(), kind, "{error}"),
        (real, model) => panic!("{real:?} where the model says {:?}", model.err()),
    }
    None
}

pub(crate) fn refusal(refusal: Refusal) -> ErrorKind {
    match refusal {
        Refusal::Mismatch => ErrorKind::ConfigMismatch,
        Refusal::TooLarge => ErrorKind::InvalidArgument,
        Refusal::Overloaded => ErrorKind::Overloaded,
    }
}

pub(crate) fn pick(index: usize, of: usize) -> Option<usize> {
    (of > 0).then(|| index % of)
}

impl World {
    async fn step(&mut self, op: Op) {
        match op {
            Op::Try { handle, weight } => self.call(handle, weight, Some(0), true),
            Op::Call { handle, weight, millis } => self.call(handle, weight, millis, false),
            Op::GiveUp(index) => {
                if let Some(index) = pick(index, self.calls.len()) {
                    let call = self.calls.remove(index);
                    self.model.cancel(call.id);
                }
            }
            Op::Drop(index) | Op::Release(index) => self.give_back(index, matches!(op, Op::Release(_))),
            Op::Reenter(index) => {
                if let Some(index) = pick(index, self.guards.len()) {
                    let again = self.guards[index][0].reenter();
                    self.guards[index].extend(again);
                }
            }
            Op::Detach(index, lease) => self.detach(index, Duration::from_millis(lease)),
            Op::Attach { handle, ticket } => self.attach(handle, ticket),
            Op::Force { handle, ticket } => self.force(handle, ticket),
            Op::Resize { handle, limit } => self.resize(handle, limit),
            Op::Available(handle) => self.available(handle),
            Op::Advance(millis) => {
                let by = Duration::from_millis(millis);
                tokio::time::advance(by).await;
                self.model.advance(by);
            }
            Op::Close(client) if client < CLIENTS => {
                now(self.clients[client].close()).unwrap();
                self.closed[client] = true;
                self.model.close(client);
            }
            Op::Close(_) => {}
            Op::LoseData => {
                self.store.simulate_data_loss();
                self.model.forget();
                // They begin at the clock again, which stands.
                self.largest = None;
                self.tokens.clear();
            }
        }
    }

    fn is_closed(&self, handle: usize) -> bool {
        self.closed[self.handles[handle].1.client]
    }

    fn call(&mut self, handle: usize, weight: u32, millis: Option<u64>, attempt: bool) {
        let closed = self.is_closed(handle);
        let (real, terms) = &mut self.handles[handle];
        let weight = if matches!(real, Real::Mutex(_)) { 1 } else { weight };
        let waits = millis != Some(0);
        self.count += 1;
        let id = self.count;
        let expected = if weight == 0 {
            Err(ErrorKind::InvalidArgument)
        } else if closed {
            Err(ErrorKind::Closed)
        } else if waits {
            self.model.request(id, weight, terms).map_err(refusal)
        } else {
            self.model.attempt(id, weight, terms).map_err(refusal)
        };
        let limit = millis.map(Duration::from_millis);
        let real = real.clone();
        let mut polled = if attempt {
            Polled::new(real.attempt(weight))
        } else {
            Polled::new(real.acquire(weight, limit))
        };
        match polled.poll() {
            Some(answer) => {
                if let Some((guard, granted)) = agree(answer, expected) {
                    assert_eq!(guard.is_some(), granted);
                    assert!(granted || !waits);
                    guard.into_iter().for_each(|guard| self.hold(id, guard));
                }
            }
            None => {
                assert_eq!(expected, Ok(false), "it waits");
                let until = limit.map(|limit| self.model.now + limit);
                self.calls.push(Pending { id, handle, until, real: polled, woken: 0 });
            }
        }
    }

    fn hold(&mut self, call: usize, guard: Guard) {
        self.model.name(call, &[guard.ticket()]);
        // Of several that were granted in one step, any may be told first.
        let grows = Some(guard.token()) > self.largest;
        assert!(grows || matches!(guard, Guard::Permit(_)), "a token that does not grow (M2)");
        assert!(grows || !self.tokens.values().any(|token| *token == guard.token()), "a token twice (M2)");
        self.largest = self.largest.max(Some(guard.token()));
        self.keep(guard);
    }

    fn keep(&mut self, guard: Guard) {
        self.tokens.insert(guard.ticket(), guard.token());
        self.tickets.push(guard.ticket());
        self.guards.push(vec![guard]);
    }

    /// Takes a guard; tells whether it was the last one of its hold.
    fn take(&mut self, index: usize) -> Option<(Guard, bool)> {
        let index = pick(index, self.guards.len())?;
        let guard = self.guards[index].pop().unwrap();
        let last = self.guards[index].is_empty();
        if last {
            self.guards.swap_remove(index);
        }
        Some((guard, last))
    }

    fn give_back(&mut self, index: usize, calls: bool) {
        let Some((guard, last)) = self.take(index) else { return };
        let ticket = guard.ticket();
        // A hold is the caller's until its deadline, and lasts a little longer.
        let held = self.model.is_held(ticket);
        if last {
            self.model.end_ticket(ticket, if calls && held { Cause::Finished } else { Cause::Abandoned });
        }
        if calls {
            agree(now(guard.release()), held.then_some(()).ok_or(ErrorKind::Lost));
        }
    }

    fn detach(&mut self, index: usize, lease: Duration) {
        let Ok(lease) = Ttl::new(lease) else { return };
        let Some((guard, last)) = self.take(index) else { return };
        let ticket = guard.ticket();
        let closed = self.clients.iter().zip(&self.closed).any(|(_, closed)| *closed);
        let expected = match last {
            true => self.model.detach(ticket, lease).then_some(ticket).ok_or(ErrorKind::Lost),
            false => Err(ErrorKind::InvalidArgument),
        };
        let detached = now(guard.detach(lease));
        if closed && expected == Err(ErrorKind::Lost) {
            // Of a closed store object, or lost before.
            assert!(matches!(kind(detached), ErrorKind::Closed | ErrorKind::Lost));
        } else if let Some((detached, ticket)) = agree(detached, expected) {
            assert_eq!(detached.ticket(), ticket);
        }
    }

    fn attach(&mut self, handle: usize, ticket: usize) {
        let Some(index) = pick(ticket, self.tickets.len()) else { return };
        let ticket = self.tickets[index];
        let expected = match self.is_closed(handle) {
            true => Err(ErrorKind::Closed),
            false => self.model.is_detached(ticket).then_some(()).ok_or(ErrorKind::Lost),
        };
        if let Some((guard, ())) = agree(now(self.handles[handle].0.attach(ticket)), expected) {
            assert_eq!(Some(&guard.token()), self.tokens.get(&ticket), "another token (C24)");
            self.model.attach(ticket, guard.ticket(), &self.handles[handle].1);
            assert_eq!(guard.weight(), self.model.hold(guard.ticket()).unwrap().weight);
            self.keep(guard);
        }
    }

    fn force(&mut self, handle: usize, ticket: usize) {
        let Some(index) = pick(ticket, self.tickets.len()) else { return };
        let (ticket, real) = (self.tickets[index], &self.handles[handle].0);
        let all = matches!(real, Real::Mutex(_));
        let expected = match self.is_closed(handle) {
            true => Err(ErrorKind::Closed),
            false => Ok(self.model.end(Cause::Abandoned, |hold| all || hold.ticket == Some(ticket)) > 0),
        };
        if let Some((freed, expected)) = agree(now(real.force(ticket)), expected) {
            assert_eq!(freed, expected);
        }
    }

    fn resize(&mut self, handle: usize, limit: u32) {
        let closed = self.is_closed(handle);
        let (Real::Semaphore(one), terms) = &mut self.handles[handle] else { return };
        let expected = match (limit, closed) {
            (0, _) => Err(ErrorKind::InvalidArgument),
            (_, true) => Err(ErrorKind::Closed),
            _ => {
                self.model.set_limit(Some(limit));
                terms.settled = true;
                Ok(())
            }
        };
        agree(now(one.resize(limit)), expected);
    }

    fn available(&mut self, handle: usize) {
        let closed = self.is_closed(handle);
        let (Real::Semaphore(one), terms) = &mut self.handles[handle] else { return };
        let expected = match closed {
            true => Err(ErrorKind::Closed),
            // It shows what is stored, and stores nothing (C20).
            false => Ok(self.model.limit.unwrap_or(terms.limit).unwrap().saturating_sub(self.model.used())),
        };
        if let Some((available, free)) = agree(now(one.available()), expected) {
            assert_eq!(available, free);
        }
    }

    /// Polls the calls that were woken, in the order of their arrival, until no one is.
    fn settle(&mut self) {
        while self.calls.iter().any(|call| call.real.wakes() > call.woken) {
            for call in std::mem::take(&mut self.calls) {
                self.poll(call);
            }
        }
        for call in &self.calls {
            assert!(!self.model.has_answer(call.id), "nobody woke a call that has an answer (C5)");
            assert!(call.until.is_none_or(|until| until > self.model.now), "nobody woke a call at its limit");
        }
    }

    fn poll(&mut self, mut call: Pending) {
        if call.real.wakes() == call.woken {
            return self.calls.push(call);
        }
        call.woken = call.real.wakes();
        let fate = self.model.ask(call.id, &mut self.handles[call.handle].1);
        let over = fate.is_none() && call.until.is_some_and(|until| until <= self.model.now);
        if over {
            self.model.cancel(call.id);
        }
        match (call.real.poll(), fate) {
            (None, None) if !over => self.calls.push(call),
            (Some(Ok(None)), None) if over => {}
            (Some(Ok(Some(guard))), Some(Fate::Granted)) => self.hold(call.id, guard),
            (Some(Err(error)), Some(Fate::TooLarge)) => assert_eq!(error.kind(), ErrorKind::InvalidArgument),
            (Some(Err(error)), Some(Fate::Closed)) => assert_eq!(error.kind(), ErrorKind::Closed),
            (real, fate) => panic!("{real:?} where the model says {fate:?}"),
        }
    }

    fn check(&self) {
        for guard in self.guards.iter().flatten() {
            let held = self.model.is_held(guard.ticket());
            assert_eq!(guard.is_held(), held, "(C10)");
            assert_eq!(Polled::new(guard.lost()).poll().is_some(), !held, "(C9)");
            if held {
                let lease = self.model.hold(guard.ticket()).unwrap().lease;
                assert_eq!(guard.deadline(), lease.map(|lease| lease.deadline.into_std()));
            }
        }
        let inspection = now(self.onlooker.inspect()).unwrap();
        self.model.agrees(&inspection);
    }
}
