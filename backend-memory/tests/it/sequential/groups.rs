//! Wait groups beside the model.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock;
use stanchion_core::{ErrorKind, Kind, Member, Outcome, Result, Store, Ticket, Ttl, WaitGroup};
use stanchion_memory::MemoryStore;

use crate::common::{Polled, kind, now};
use crate::sequential::group_ops::Op;
use crate::sequential::model::{Cause, End, Fate, Model, Terms};
use crate::sequential::permits::{agree, pick, refusal};
use crate::sequential::real::detached;
use crate::sequential::terms::CLIENTS;

/// One caller's object.
struct Handle {
    real: Arc<dyn WaitGroup>,
    terms: Terms,
    /// The record that it has seen live; 0 if none (W6).
    seen: u32,
}

/// A call that waits: to join, or for zero.
struct Pending<T> {
    id: usize,
    handle: usize,
    until: Option<clock::Instant>,
    real: Polled<'static, Result<Option<T>>>,
    woken: usize,
}

struct World {
    model: Model,
    store: MemoryStore,
    clients: Vec<MemoryStore>,
    closed: Vec<bool>,
    handles: Vec<Handle>,
    onlooker: Arc<dyn WaitGroup>,
    members: Vec<Member>,
    adds: Vec<Pending<Vec<Member>>>,
    /// Each waits for the generation of its number.
    waits: Vec<Pending<Outcome>>,
    count: usize,
    tickets: Vec<Ticket>,
}

/// How long the outcome of a group is kept that nobody uses.
const RETENTION: Duration = Duration::from_secs(60);

pub(crate) async fn run(terms: Vec<Terms>, ops: Vec<Op>) {
    let store = MemoryStore::builder().retention(RETENTION).build();
    let clients: Vec<MemoryStore> = (0..CLIENTS).map(|_| store.client()).collect();
    let onlooker = store.wait_group("a", terms[0].group()).unwrap();
    let open = |terms: Terms| {
        let real = clients[terms.client].wait_group("a", terms.group()).unwrap();
        Handle { real, terms, seen: 0 }
    };
    let handles = terms.into_iter().map(open).collect();
    let mut world = World {
        model: Model::new(clock::now()),
        store,
        clients,
        closed: vec![false; CLIENTS],
        handles,
        onlooker,
        members: Vec::new(),
        adds: Vec::new(),
        waits: Vec::new(),
        count: 0,
        tickets: Vec::new(),
    };
    for op in ops {
        world.step(op).await;
        world.settle();
        world.model.agrees(&now(world.onlooker.inspect()).unwrap());
        world.check();
    }
    let store = world.store.clone();
    drop(world);
    tokio::time::advance(Duration::from_secs(2)).await;
    // The last members' leases have ended: now it is noticed, and the outcome is kept from now on.
    assert!(store.len() <= 1);
    tokio::time::advance(RETENTION + Duration::from_millis(1)).await;
    assert!(store.is_empty(), "state is left of a name nobody uses (C25)");
}

async fn join(one: Arc<dyn WaitGroup>, limit: Option<Duration>) -> Result<Option<Vec<Member>>> {
    match limit {
        Some(limit) => Ok(one.add_for(limit).await?.map(|member| vec![member])),
        None => Ok(Some(vec![one.add().await?])),
    }
}

async fn zero(one: Arc<dyn WaitGroup>, limit: Option<Duration>) -> Result<Option<Outcome>> {
    match limit {
        Some(limit) => one.wait_for(limit).await,
        None => one.wait().await.map(Some),
    }
}

impl World {
    async fn step(&mut self, op: Op) {
        match op {
            Op::Add { handle, millis } => {
                let limit = millis.map(Duration::from_millis);
                let real = Polled::new(join(Arc::clone(&self.handles[handle].real), limit));
                self.add(handle, 1, limit, real);
            }
            Op::AddMany { handle, count } => {
                let one = Arc::clone(&self.handles[handle].real);
                let real = Polled::new(async move { one.add_many(count).await.map(Some) });
                self.add(handle, count, None, real);
            }
            Op::GiveUp(index) => {
                if let Some(index) = pick(index, self.adds.len()) {
                    let call = self.adds.remove(index);
                    self.model.cancel(call.id);
                }
            }
            Op::Done(index) | Op::Drop(index) => self.end(index, matches!(op, Op::Done(_))),
            Op::DoneByTicket { handle, ticket } => self.done(handle, ticket),
            Op::Detach(index, lease) => self.detach(index, Duration::from_millis(lease)),
            Op::Attach { handle, ticket } => self.attach(handle, ticket),
            Op::Wait { handle, millis } => self.wait(handle, millis.map(Duration::from_millis)),
            Op::StopWaiting(index) => {
                if let Some(index) = pick(index, self.waits.len()) {
                    drop(self.waits.swap_remove(index));
                }
            }
            Op::Count(handle) => {
                let expected = self.look(handle);
                if let Some((count, expected)) = agree(now(self.handles[handle].real.count()), expected) {
                    assert_eq!(count, u64::from(expected));
                }
            }
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
            }
        }
    }

    fn is_closed(&self, handle: usize) -> bool {
        self.closed[self.handles[handle].terms.client]
    }

    fn add(
        &mut self,
        handle: usize,
        count: u32,
        limit: Option<Duration>,
        mut real: Polled<'static, Result<Option<Vec<Member>>>>,
    ) {
        let closed = self.is_closed(handle);
        let terms = &mut self.handles[handle].terms;
        let waits = limit.is_none_or(|limit| !limit.is_zero());
        self.count += 1;
        let id = self.count;
        let expected = if count == 0 {
            Err(ErrorKind::InvalidArgument)
        } else if closed {
            Err(ErrorKind::Closed)
        } else if waits {
            self.model.request(id, count, terms).map_err(refusal)
        } else {
            self.model.attempt(id, count, terms).map_err(refusal)
        };
        match real.poll() {
            Some(answer) => {
                if let Some((members, granted)) = agree(answer, expected) {
                    assert_eq!(members.is_some(), granted);
                    assert!(granted || !waits);
                    members.into_iter().for_each(|members| self.keep(id, handle, count, members));
                }
            }
            None => {
                assert_eq!(expected, Ok(false), "it waits");
                let until = limit.map(|limit| self.model.now + limit);
                self.adds.push(Pending { id, handle, until, real, woken: 0 });
            }
        }
    }

    fn keep(&mut self, call: usize, handle: usize, count: u32, members: Vec<Member>) {
        assert_eq!(members.len(), usize::try_from(count).unwrap());
        let tickets: Vec<Ticket> = members.iter().map(Member::ticket).collect();
        self.model.name(call, &tickets);
        self.handles[handle].seen = self.model.record();
        self.tickets.extend(tickets);
        self.members.extend(members);
    }

    fn end(&mut self, index: usize, finishes: bool) {
        let Some(index) = pick(index, self.members.len()) else { return };
        let member = self.members.swap_remove(index);
        // A member is the caller's until its deadline, and lasts a little longer.
        let held = self.model.is_held(member.ticket());
        let cause = if finishes && held { Cause::Finished } else { Cause::Abandoned };
        self.model.end_ticket(member.ticket(), cause);
        if finishes {
            agree(now(member.done()), held.then_some(()).ok_or(ErrorKind::Lost));
        }
    }

    fn done(&mut self, handle: usize, ticket: usize) {
        let Some(index) = pick(ticket, self.tickets.len()) else { return };
        let ticket = self.tickets[index];
        let expected = match self.is_closed(handle) {
            true => Err(ErrorKind::Closed),
            false => self.model.end_ticket(ticket, Cause::Finished).then_some(()).ok_or(ErrorKind::Lost),
        };
        let handle = &mut self.handles[handle];
        if agree(now(handle.real.done(ticket)), expected).is_some() {
            handle.seen = self.model.record();
        }
    }

    fn detach(&mut self, index: usize, lease: Duration) {
        let Ok(lease) = Ttl::new(lease) else { return };
        let Some(index) = pick(index, self.members.len()) else { return };
        let member = self.members.swap_remove(index);
        let ticket = member.ticket();
        let expected = self.model.detach(ticket, lease).then_some(ticket).ok_or(ErrorKind::Lost);
        let detached = now(member.detach(lease));
        if self.closed.contains(&true) && expected == Err(ErrorKind::Lost) {
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
        let handle = &mut self.handles[handle];
        if let Some((member, ())) =
            agree(now(handle.real.attach(&detached(Kind::WaitGroup, handle.real.name(), ticket))), expected)
        {
            self.model.attach(ticket, member.ticket(), &handle.terms);
            handle.seen = self.model.record();
            self.tickets.push(member.ticket());
            self.members.push(member);
        }
    }

    /// The count, for a caller that may know that there was a record (W6).
    fn look(&mut self, handle: usize) -> std::result::Result<u32, ErrorKind> {
        let closed = self.is_closed(handle);
        let handle = &mut self.handles[handle];
        if closed {
            return Err(ErrorKind::Closed);
        }
        let (record, used) = (self.model.record(), self.model.used());
        let live = if used > 0 { record } else { 0 };
        if handle.seen != 0 && handle.seen != record {
            handle.seen = if record == 0 { handle.seen } else { live };
            return Err(ErrorKind::StateLost);
        }
        if live != 0 {
            handle.seen = live;
        }
        Ok(used)
    }

    fn wait(&mut self, handle: usize, limit: Option<Duration>) {
        let expected = self.look(handle).map(|used| (used == 0).then_some(self.model.last));
        let mut real = Polled::new(zero(Arc::clone(&self.handles[handle].real), limit));
        match real.poll() {
            Some(answer) => {
                if let Some((outcome, expected)) = agree(answer, expected) {
                    assert!(expected.is_some() || limit.is_some_and(|limit| limit.is_zero()));
                    assert_eq!(outcome, expected);
                }
            }
            None => {
                assert_eq!(expected, Ok(None), "it waits");
                let (id, until) = (self.model.ends.len(), limit.map(|limit| self.model.now + limit));
                self.waits.push(Pending { id, handle, until, real, woken: 0 });
            }
        }
    }

    /// Polls what was woken until nothing is: those who join in the order of their arrival, then
    /// those who wait.
    fn settle(&mut self) {
        loop {
            let adding = self.adds.iter().any(|call| call.real.wakes() > call.woken);
            let waiting = self.waits.iter().any(|call| call.real.wakes() > call.woken);
            if !adding && !waiting {
                return;
            }
            for call in std::mem::take(&mut self.adds) {
                self.poll_add(call);
            }
            for call in std::mem::take(&mut self.waits) {
                self.poll_wait(call);
            }
        }
    }

    fn poll_add(&mut self, mut call: Pending<Vec<Member>>) {
        if call.real.wakes() == call.woken {
            return self.adds.push(call);
        }
        call.woken = call.real.wakes();
        let fate = self.model.ask(call.id, &mut self.handles[call.handle].terms);
        let over = fate.is_none() && call.until.is_some_and(|until| until <= self.model.now);
        if over {
            self.model.cancel(call.id);
        }
        match (call.real.poll(), fate) {
            (None, None) if !over => self.adds.push(call),
            (Some(Ok(None)), None) if over => {}
            (Some(Ok(Some(members))), Some(Fate::Granted)) => {
                let count = u32::try_from(members.len()).unwrap();
                self.keep(call.id, call.handle, count, members);
            }
            (Some(Err(error)), Some(Fate::TooLarge)) => assert_eq!(error.kind(), ErrorKind::InvalidArgument),
            (Some(Err(error)), Some(Fate::Closed)) => assert_eq!(error.kind(), ErrorKind::Closed),
            (real, fate) => panic!("{real:?} where the model says {fate:?}"),
        }
    }

    /// How a wait ends, if it does.
    fn answer(&self, call: &Pending<Outcome>) -> Option<std::result::Result<Option<Outcome>, ErrorKind>> {
        let over = call.until.is_some_and(|until| until <= self.model.now);
        match self.model.ends.get(call.id) {
            _ if self.is_closed(call.handle) => Some(Err(ErrorKind::Closed)),
            Some(End::Zero(outcome)) => Some(Ok(Some(*outcome))),
            Some(End::Lost) => Some(Err(ErrorKind::StateLost)),
            None => over.then_some(Ok(None)),
        }
    }

    fn poll_wait(&mut self, mut call: Pending<Outcome>) {
        if call.real.wakes() == call.woken {
            return self.waits.push(call);
        }
        call.woken = call.real.wakes();
        match (call.real.poll(), self.answer(&call)) {
            (None, None) => self.waits.push(call),
            (Some(answer), Some(expected)) => {
                if let Some((outcome, expected)) = agree(answer, expected) {
                    assert_eq!(outcome, expected);
                }
            }
            (real, expected) => panic!("{real:?} where the model says {expected:?}"),
        }
    }

    fn check(&self) {
        for call in &self.adds {
            assert!(!self.model.has_answer(call.id), "nobody woke a call that has an answer (C5)");
            assert!(call.until.is_none_or(|until| until > self.model.now), "nobody woke a call at its limit");
        }
        for call in &self.waits {
            assert_eq!(self.answer(call), None, "nobody woke a wait that is over (W3)");
        }
        for member in &self.members {
            let held = self.model.is_held(member.ticket());
            assert_eq!(member.is_held(), held, "(C10)");
            assert_eq!(Polled::new(member.lost()).poll().is_some(), !held, "(C9)");
        }
    }
}
