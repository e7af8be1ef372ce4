//! Limiters beside the model of a bucket.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use stanchion_core::clock;
use stanchion_core::limiter::ExactQuota;
use stanchion_core::{
    Decision, ErrorKind, Limiter, LimiterOptions, OnMismatch, Quota, Reservation, Result, Store,
};
use stanchion_memory::MemoryStore;

use crate::common::{Polled, kind, now};
use crate::sequential::RETENTION;
use crate::sequential::limit_model::{Answer, Model};
use crate::sequential::permits::{agree, pick};
use crate::sequential::terms::{CLIENTS, HANDLES};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Allow {
        handle: usize,
        cost: u64,
    },
    Peek(usize),
    Reserve {
        handle: usize,
        cost: u64,
        micros: u64,
    },
    Cancel(usize),
    Drop(usize),
    /// Waits for a reservation's time.
    Await(usize),
    Wait {
        handle: usize,
        cost: u64,
        micros: Option<u64>,
    },
    GiveUp(usize),
    SetQuota {
        handle: usize,
        quota: Quota,
    },
    Reset(usize),
    Advance(u64),
    Close(usize),
    LoseData,
}

/// A few tokens in some milliseconds, so that rounding and the burst meet often.
fn quota() -> impl Strategy<Value = Quota> {
    (1..12_u64, 1..30_000_u64, 1..12_u64)
        .prop_map(|(amount, period, burst)| Quota::per(amount, Duration::from_micros(period)).burst(burst))
}

/// What each caller's object is made with; most agree.
pub(crate) fn handles() -> impl Strategy<Value = Vec<(Quota, OnMismatch)>> {
    let on_mismatch =
        prop_oneof![Just(OnMismatch::Refuse), Just(OnMismatch::Adopt), Just(OnMismatch::Replace)];
    let other = prop::option::weighted(0.3, quota());
    (quota(), prop::collection::vec((other, on_mismatch), HANDLES)).prop_map(|(common, others)| {
        others.into_iter().map(|(other, on_mismatch)| (other.unwrap_or(common), on_mismatch)).collect()
    })
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let handle = || 0..HANDLES;
    let cost = || prop_oneof![8 => 1..6_u64, 1 => 0..14_u64];
    let any = any::<usize>;
    let micros = || prop_oneof![3 => Just(None), 2 => (0..40_000_u64).prop_map(Some)];
    let op = prop_oneof![
        10 => (handle(), cost()).prop_map(|(handle, cost)| Op::Allow { handle, cost }),
        2 => handle().prop_map(Op::Peek),
        8 => (handle(), cost(), 0..60_000_u64)
            .prop_map(|(handle, cost, micros)| Op::Reserve { handle, cost, micros }),
        3 => any().prop_map(Op::Cancel),
        3 => any().prop_map(Op::Drop),
        3 => any().prop_map(Op::Await),
        6 => (handle(), cost(), micros())
            .prop_map(|(handle, cost, micros)| Op::Wait { handle, cost, micros }),
        3 => any().prop_map(Op::GiveUp),
        1 => (handle(), quota()).prop_map(|(handle, quota)| Op::SetQuota { handle, quota }),
        1 => handle().prop_map(Op::Reset),
        // By whole milliseconds, as a sleep ends.
        10 => (1..30_u64).prop_map(Op::Advance),
        1 => (0..CLIENTS * 3).prop_map(Op::Close),
        1 => Just(Op::LoseData),
    ];
    prop::collection::vec(op, 1..80)
}

struct Handle {
    real: Arc<dyn Limiter>,
    client: usize,
    quota: ExactQuota,
    on_mismatch: OnMismatch,
    settled: bool,
}

/// A reservation, by itself or in a call that waits.
struct Place<T> {
    id: u128,
    /// In µs of the model's time.
    ready_at: u64,
    real: T,
}

struct Waiting {
    client: Option<usize>,
    call: Polled<'static, Result<bool>>,
    woken: usize,
}

struct World {
    /// None until the first operation, and after a loss.
    bucket: Option<(Model, ExactQuota)>,
    micros: u64,
    store: MemoryStore,
    clients: Vec<MemoryStore>,
    closed: Vec<bool>,
    handles: Vec<Handle>,
    places: Vec<Place<Reservation>>,
    waits: Vec<Place<Waiting>>,
    count: u128,
}

pub(crate) async fn run(handles: Vec<(Quota, OnMismatch)>, ops: Vec<Op>) {
    let store = MemoryStore::new();
    let clients: Vec<MemoryStore> = (0..CLIENTS).map(|_| store.client()).collect();
    let open = |(index, (quota, on_mismatch)): (usize, (Quota, OnMismatch))| {
        let client = index % CLIENTS;
        let options = LimiterOptions::new(quota).on_mismatch(on_mismatch);
        let real = clients[client].limiter("a", options).unwrap();
        Handle { real, client, quota: quota.validate().unwrap(), on_mismatch, settled: false }
    };
    let handles = handles.into_iter().enumerate().map(open).collect();
    let mut world = World {
        bucket: None,
        micros: 1 << 40,
        store,
        clients,
        closed: vec![false; CLIENTS],
        handles,
        places: Vec::new(),
        waits: Vec::new(),
        count: 0,
    };
    for op in ops {
        world.step(op).await;
        world.settle();
    }
    let store = world.store.clone();
    drop(world);
    // By then every bucket is full.
    tokio::time::advance(Duration::from_secs(60)).await;
    tokio::time::advance(RETENTION).await;
    assert!(store.is_empty(), "state is left of a name nobody uses (C25)");
}

fn told(decision: Decision) -> Answer {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap();
    let retry_after = decision.retry_after.map(micros);
    (decision.allowed, decision.limit, decision.remaining, retry_after, micros(decision.reset_after))
}

impl World {
    async fn step(&mut self, op: Op) {
        match op {
            Op::Allow { handle, cost } => self.allow(handle, cost, false),
            Op::Peek(handle) => self.allow(handle, 0, true),
            Op::Reserve { handle, cost, micros } => self.reserve(handle, cost, micros),
            Op::Cancel(index) => {
                if let Some(index) = pick(index, self.places.len()) {
                    let place = self.places.swap_remove(index);
                    let refund = self.refund(place.id);
                    assert_eq!(now(place.real.cancel()).unwrap(), refund, "(L7)");
                }
            }
            Op::Drop(index) => {
                if let Some(index) = pick(index, self.places.len()) {
                    let place = self.places.swap_remove(index);
                    self.refund(place.id);
                }
            }
            Op::Await(index) => {
                if let Some(index) = pick(index, self.places.len()) {
                    let Place { id, ready_at, real } = self.places.swap_remove(index);
                    let call = Polled::new(async move {
                        real.wait().await;
                        Ok(true)
                    });
                    self.begin(id, ready_at, None, call);
                }
            }
            Op::Wait { handle, cost, micros } => self.wait(handle, cost, micros),
            Op::GiveUp(index) => {
                if let Some(index) = pick(index, self.waits.len()) {
                    let place = self.waits.swap_remove(index);
                    self.refund(place.id);
                }
            }
            Op::SetQuota { handle, quota } => {
                let (at, exact) = (self.micros, quota.validate().unwrap());
                let expected = self.check_open(handle).map(|()| {
                    let bucket = self.bucket.get_or_insert_with(|| (Model::new(exact, at), exact));
                    bucket.0.set_quota(at, exact);
                    bucket.1 = exact;
                    // It is the caller's choice, whatever the store had.
                    self.handles[handle].settled = true;
                });
                agree(now(self.handles[handle].real.set_quota(quota)), expected);
            }
            Op::Reset(handle) => {
                let at = self.micros;
                let expected = self.check_open(handle).map(|()| {
                    if let Some((model, _)) = &mut self.bucket {
                        model.reset(at);
                    }
                });
                agree(now(self.handles[handle].real.reset()), expected);
            }
            Op::Advance(millis) => {
                tokio::time::advance(Duration::from_millis(millis)).await;
                self.micros += millis * 1000;
            }
            Op::Close(client) if client < CLIENTS => {
                now(self.clients[client].close()).unwrap();
                self.closed[client] = true;
            }
            Op::Close(_) => {}
            Op::LoseData => {
                self.store.simulate_data_loss();
                self.bucket = None;
            }
        }
    }

    fn check_open(&self, handle: usize) -> std::result::Result<(), ErrorKind> {
        if self.closed[self.handles[handle].client] { Err(ErrorKind::Closed) } else { Ok(()) }
    }

    /// Takes or reserves that cost from the bucket as a caller finds it (C20).
    fn ask<T>(
        &mut self,
        handle: usize,
        cost: u64,
        ask: impl FnOnce(&mut Model) -> T,
    ) -> std::result::Result<T, ErrorKind> {
        self.check_open(handle)?;
        let (at, handle) = (self.micros, &mut self.handles[handle]);
        let mut bucket = self.bucket.clone().unwrap_or_else(|| (Model::new(handle.quota, at), handle.quota));
        if cost == 0 {
            return Ok(ask(&mut bucket.0));
        }
        if !handle.settled && handle.on_mismatch != OnMismatch::Adopt && cost > handle.quota.burst() {
            return Err(ErrorKind::InvalidArgument);
        }
        if !handle.settled && bucket.1 != handle.quota {
            match handle.on_mismatch {
                OnMismatch::Adopt => {}
                OnMismatch::Replace => {
                    bucket.0.set_quota(at, handle.quota);
                    bucket.1 = handle.quota;
                }
                _ => return Err(ErrorKind::ConfigMismatch),
            }
        }
        handle.settled |= self.bucket.is_some();
        if cost > bucket.1.burst() {
            return Err(ErrorKind::InvalidArgument);
        }
        handle.settled = true;
        let asked = ask(&mut bucket.0);
        self.bucket = Some(bucket);
        Ok(asked)
    }

    fn refund(&mut self, id: u128) -> u64 {
        let at = self.micros;
        self.bucket.as_mut().map_or(0, |(model, _)| model.cancel(at, id))
    }

    fn allow(&mut self, handle: usize, cost: u64, peeks: bool) {
        let at = self.micros;
        let expected = self.ask(handle, cost, |model| model.take(at, cost));
        let real = &self.handles[handle].real;
        let decision = match cost {
            0 if peeks => now(real.peek()),
            1 => now(real.allow()),
            _ => now(real.allow_n(cost)),
        };
        if let Some((decision, expected)) = agree(decision, expected) {
            assert_eq!(told(decision), expected, "(L8)");
        }
    }

    /// A place in the future, as the model has it: its number and its time.
    fn place(
        &mut self,
        handle: usize,
        cost: u64,
        most: u64,
    ) -> std::result::Result<Option<(u128, u64)>, ErrorKind> {
        self.count += 1;
        let (id, at) = (self.count, self.micros);
        let place = self.ask(handle, cost, |model| model.reserve(at, id, cost, most))?;
        Ok(place.map(|(ready_at, _)| (id, ready_at)))
    }

    fn reserve(&mut self, handle: usize, cost: u64, micros: u64) {
        let expected = self.place(handle, cost, micros);
        let reserved = now(self.handles[handle].real.reserve_n(cost, Duration::from_micros(micros)));
        let Some((reserved, expected)) = agree(reserved, expected) else { return };
        assert_eq!(reserved.is_some(), expected.is_some(), "(L6)");
        if let (Some(real), Some((id, ready_at))) = (reserved, expected) {
            let wait = Duration::from_micros(ready_at.saturating_sub(self.micros));
            assert_eq!(real.ready_at(), (clock::now() + wait).into_std(), "(L6)");
            assert_eq!(real.is_due(), wait.is_zero());
            self.places.push(Place { id, ready_at, real });
        }
    }

    fn wait(&mut self, handle: usize, cost: u64, micros: Option<u64>) {
        let expected = self.place(handle, cost, micros.unwrap_or(1 << 52));
        let real = Arc::clone(&self.handles[handle].real);
        let mut call = Polled::new(async move {
            match micros {
                Some(micros) => real.wait_n_for(cost, Duration::from_micros(micros)).await,
                None => real.wait_n(cost).await.map(|()| true),
            }
        });
        match expected {
            Ok(Some((id, ready_at))) => {
                let client = Some(self.handles[handle].client);
                self.begin(id, ready_at, client, call);
            }
            Ok(None) => assert!(!call.poll().expect("refused at once").unwrap()),
            Err(expected) => assert_eq!(kind(call.poll().expect("refused at once")), expected),
        }
    }

    /// Waits for a place that is there.
    fn begin(
        &mut self,
        id: u128,
        ready_at: u64,
        client: Option<usize>,
        mut call: Polled<'static, Result<bool>>,
    ) {
        match call.poll() {
            Some(done) => assert!(done.unwrap() && ready_at <= self.micros, "before its time (L6)"),
            None => {
                assert!(ready_at > self.micros, "its time has come");
                self.waits.push(Place { id, ready_at, real: Waiting { client, call, woken: 0 } });
            }
        }
    }

    /// Polls the calls that were woken.
    fn settle(&mut self) {
        for mut place in std::mem::take(&mut self.waits) {
            let wait = &mut place.real;
            let closed = wait.client.is_some_and(|client| self.closed[client]);
            let due = place.ready_at <= self.micros;
            let wakes = wait.call.wakes();
            let polled = if wakes > wait.woken { wait.call.poll() } else { None };
            wait.woken = wakes;
            match polled {
                Some(Ok(true)) if due && !closed => {}
                Some(Err(error)) if closed => {
                    assert_eq!(error.kind(), ErrorKind::Closed);
                    self.refund(place.id);
                }
                None if !closed && !due => self.waits.push(place),
                other => panic!("{other:?} of a wait that is due: {due}, closed: {closed}"),
            }
        }
    }
}
