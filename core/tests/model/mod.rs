//! A sequential model of a lease store, with faults to order: what the engine is tested against.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a store of its own, with real time"
)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::engine::Engine;
use stanchion_core::engine::steps::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Force, Kept, Object, PermitSteps, Polled, Release,
    Renew, Steps, WakeSource, refused,
};
use stanchion_core::{
    Capabilities, Error, ErrorKind, FencingToken, Holder, Inspection, MutexMode, Result, Ticket,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

#[derive(Debug)]
pub struct ModelHold {
    pub ticket: Ticket,
    pub weight: u32,
    pub token: u64,
    pub granted: Instant,
    pub expires: Instant,
}

#[derive(Debug, Default)]
pub struct Record {
    pub limit: Option<u32>,
    pub holds: Vec<ModelHold>,
    pub queue: Vec<(Ticket, u32)>,
    pub tombstones: Vec<Ticket>,
    pub born: u64,
}

/// What happens to calls of steps, counted from 1 over all of them.
#[derive(Debug, Default)]
pub struct Faults {
    /// Calls made.
    pub calls: AtomicU64,
    /// The reply of this call is lost after it was executed.
    pub lose_reply: AtomicU64,
    /// All calls fail before they are executed.
    pub away: AtomicBool,
    /// All calls take so many milliseconds, half of them before they are executed.
    pub delay_ms: AtomicU64,
    /// Renewals fail.
    pub no_renewal: AtomicBool,
    /// Wake-ups are dropped.
    pub no_wake: AtomicBool,
    pub acquires: AtomicU32,
    pub polls: AtomicU32,
    pub renewals: AtomicU32,
}

#[derive(Debug)]
pub struct Model {
    pub records: Mutex<HashMap<Object, Record>>,
    pub faults: Faults,
    token: AtomicU64,
    wake: mpsc::UnboundedSender<Ticket>,
}

#[derive(Debug)]
struct Wakes(tokio::sync::Mutex<mpsc::UnboundedReceiver<Ticket>>);

#[async_trait]
impl WakeSource for Wakes {
    fn watch(&self, _: &Object, _: bool) {}

    async fn next(&self) -> Result<Vec<Ticket>> {
        let mut wakes = self.0.lock().await;
        match tokio::time::timeout(Duration::from_millis(500), wakes.recv()).await {
            Ok(Some(ticket)) => Ok(vec![ticket]),
            Ok(None) => Err(Error::new(ErrorKind::Unavailable, "the model is gone")),
            Err(_) => Ok(Vec::new()),
        }
    }
}

/// A model and an engine over it.
pub fn model() -> (Arc<Model>, Engine) {
    let (wake, wakes) = mpsc::unbounded_channel();
    let model = Arc::new(Model {
        records: Mutex::default(),
        faults: Faults::default(),
        token: AtomicU64::new(0),
        wake,
    });
    let permits = Arc::clone(&model) as Arc<dyn PermitSteps>;
    let steps = Steps { permits, groups: None, limits: None, request_timeout: Duration::from_secs(2) };
    let wakes = Arc::new(Wakes(tokio::sync::Mutex::new(wakes)));
    let capabilities = Capabilities::full("model", MutexMode::Lease);
    let engine = Engine::start(capabilities, steps.clone(), steps, Some(wakes)).unwrap();
    (model, engine)
}

impl Record {
    fn used(&self) -> u32 {
        self.holds.iter().map(|hold| hold.weight).sum()
    }

    fn reap(&mut self) {
        let now = Instant::now();
        self.holds.retain(|hold| hold.expires > now);
    }
}

impl Model {
    /// Runs a step on a record, with the faults ordered.
    async fn step<T>(&self, run: impl FnOnce(&mut HashMap<Object, Record>) -> T) -> Result<T> {
        let call = self.faults.calls.fetch_add(1, SeqCst) + 1;
        let half = Duration::from_millis(self.faults.delay_ms.load(SeqCst) / 2);
        if self.faults.away.load(SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "away"));
        }
        if !half.is_zero() {
            sleep(half).await;
        }
        let answer = {
            let mut records = self.records.lock().unwrap();
            records.values_mut().for_each(Record::reap);
            run(&mut records)
        };
        if !half.is_zero() {
            sleep(half).await;
        }
        if self.faults.lose_reply.load(SeqCst) == call {
            return Err(Error::new(ErrorKind::Unknown, "the reply is lost"));
        }
        Ok(answer)
    }

    /// The same for a batch.
    async fn each<T>(
        &self,
        count: usize,
        run: impl FnOnce(&mut HashMap<Object, Record>) -> Vec<T>,
    ) -> Answers<T> {
        match self.step(run).await {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(error) => refused(count, &error),
        }
    }

    fn wake(&self, record: &Record, limit: u32) {
        let mut free = limit.saturating_sub(record.used());
        for (ticket, weight) in &record.queue {
            if *weight > free || self.faults.no_wake.load(SeqCst) {
                return;
            }
            free -= weight;
            let _ = self.wake.send(*ticket);
        }
    }

    fn acquire_one(&self, record: &mut Record, ask: &Acquire) -> Acquired {
        self.faults.acquires.fetch_add(1, SeqCst);
        if record.tombstones.contains(&ask.ticket) {
            return Acquired::Cancelled;
        }
        let limit = *record.limit.get_or_insert(ask.limit);
        let expires = Instant::now() + ask.lease.get();
        if let Some(hold) = record.holds.iter_mut().find(|hold| hold.ticket == ask.ticket) {
            hold.expires = expires;
            return Acquired::Granted { token: FencingToken::new(hold.token).unwrap(), limit };
        }
        let place = record.queue.iter().position(|(ticket, _)| *ticket == ask.ticket);
        let first = place.map_or(record.queue.is_empty(), |place| place == 0);
        if first && record.used() + ask.weight <= limit {
            let token = self.token.fetch_add(1, SeqCst) + 1;
            record.queue.retain(|(ticket, _)| *ticket != ask.ticket);
            record.holds.push(ModelHold {
                ticket: ask.ticket,
                weight: ask.weight,
                token,
                granted: Instant::now(),
                expires,
            });
            self.wake(record, limit);
            return Acquired::Granted { token: FencingToken::new(token).unwrap(), limit };
        }
        if ask.queue && place.is_none() {
            if ask.max_waiters.is_some_and(|max| record.queue.len() >= max as usize) {
                return Acquired::Overloaded;
            }
            record.queue.push((ask.ticket, ask.weight));
        } else if !ask.queue {
            record.queue.retain(|(ticket, _)| *ticket != ask.ticket);
        }
        Acquired::Waiting { limit, born: record.born }
    }

    fn free(&self, record: &mut Record, freed: impl Fn(Ticket) -> bool) -> u32 {
        let before = record.holds.len();
        record.holds.retain(|hold| !freed(hold.ticket));
        if let Some(limit) = record.limit {
            self.wake(record, limit);
        }
        u32::try_from(before - record.holds.len()).unwrap()
    }

    /// Everything held and queued, over all objects.
    pub fn left(&self) -> (usize, usize) {
        let mut records = self.records.lock().unwrap();
        records.values_mut().for_each(Record::reap);
        records
            .values()
            .fold((0, 0), |(held, queued), record| (held + record.holds.len(), queued + record.queue.len()))
    }
}

#[async_trait]
impl PermitSteps for Model {
    fn lane(&self, _: &Object) -> usize {
        0
    }

    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        self.each(batch.len(), |records| {
            batch
                .iter()
                .map(|ask| self.acquire_one(records.entry(ask.object.clone()).or_default(), ask))
                .collect()
        })
        .await
    }

    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        self.faults.renewals.fetch_add(1, SeqCst);
        if self.faults.no_renewal.load(SeqCst) {
            return refused(batch.len(), &Error::new(ErrorKind::Unavailable, "no renewal"));
        }
        self.each(batch.len(), |records| {
            let renew = |ask: &Renew| {
                let record = records.entry(ask.object.clone()).or_default();
                match record.holds.iter_mut().find(|hold| hold.ticket == ask.ticket) {
                    Some(hold) => {
                        hold.expires = Instant::now() + ask.lease.get();
                        Kept::Yes
                    }
                    None => Kept::No,
                }
            };
            batch.iter().map(renew).collect()
        })
        .await
    }

    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        self.each(batch.len(), |records| {
            let release = |ask: &Release| {
                let record = records.entry(ask.object.clone()).or_default();
                if ask.tombstone.is_some() {
                    record.tombstones.push(ask.ticket);
                }
                if self.free(record, |ticket| ticket == ask.ticket) > 0 { Kept::Yes } else { Kept::No }
            };
            batch.iter().map(release).collect()
        })
        .await
    }

    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        self.each(batch.len(), |records| {
            for ask in batch {
                let record = records.entry(ask.object.clone()).or_default();
                let queued = record.queue.len();
                record.queue.retain(|(ticket, _)| *ticket != ask.ticket);
                if self.free(record, |ticket| ticket == ask.ticket) == 0 && queued == record.queue.len() {
                    record.tombstones.push(ask.ticket);
                }
            }
            vec![(); batch.len()]
        })
        .await
    }

    async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        self.faults.polls.fetch_add(1, SeqCst);
        self.each(batch.len(), |records| {
            let poll = |object: &Object| {
                let record = records.entry(object.clone()).or_default();
                let mut free = record.limit.unwrap_or(1).saturating_sub(record.used());
                let mut ready = Vec::new();
                for (ticket, weight) in &record.queue {
                    if *weight > free {
                        break;
                    }
                    free -= weight;
                    ready.push(*ticket);
                }
                let next = record.holds.iter().map(|hold| hold.expires).min();
                let next = next.map(|next| next.saturating_duration_since(Instant::now()));
                Polled { ready, next, born: record.born }
            };
            batch.iter().map(poll).collect()
        })
        .await
    }

    async fn attach(&self, ask: &Attach) -> Result<Option<Attached>> {
        self.step(|records| {
            let record = records.entry(ask.object.clone()).or_default();
            if record.tombstones.contains(&ask.to) {
                return None;
            }
            let hold =
                record.holds.iter_mut().find(|hold| hold.ticket == ask.from || hold.ticket == ask.to)?;
            hold.ticket = ask.to;
            hold.expires = Instant::now() + ask.lease.get();
            record.tombstones.push(ask.from);
            Some(Attached { token: FencingToken::new(hold.token).unwrap(), weight: hold.weight })
        })
        .await
    }

    async fn inspect(&self, object: &Object) -> Result<Inspection> {
        self.step(|records| {
            let record = records.entry(object.clone()).or_default();
            let holder = |hold: &ModelHold| {
                let token = FencingToken::new(hold.token).unwrap();
                Holder::new(hold.ticket, token, hold.weight, hold.granted.elapsed())
            };
            Inspection::new(
                record.holds.iter().map(holder).collect(),
                record.queue.len() as u64,
                record.limit,
            )
        })
        .await
    }

    async fn resize(&self, object: &Object, limit: u32) -> Result<()> {
        self.step(|records| {
            let record = records.entry(object.clone()).or_default();
            record.limit = Some(limit);
            self.wake(record, limit);
        })
        .await
    }

    async fn force(&self, object: &Object, force: Force) -> Result<u32> {
        self.step(|records| {
            let record = records.entry(object.clone()).or_default();
            self.free(record, |ticket| force == Force::All || force == Force::One(ticket))
        })
        .await
    }

    async fn ping(&self) -> Result<()> {
        self.step(|_| ()).await
    }
}
