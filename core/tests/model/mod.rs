//! A sequential model of a lease store, with faults to order: what the engine is tested against.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a store of its own, with real time"
)]

mod groups;
mod limits;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::engine::Engine;
use stanchion_core::engine::steps::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Ending, Force, GroupSteps, Kept, LimitCheck,
    LimitSteps, Object, PermitSteps, Polled, Release, Renew, Steps, WakeSource, refused,
};
use stanchion_core::{
    Capabilities, Error, ErrorKind, FencingToken, Holder, Inspection, Kind, MutexMode, OnMismatch, Result,
    Ticket,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use self::groups::{Cause, Generations};

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
    /// The calls that ended holds, by ticket.
    pub calls: HashMap<Ticket, Ticket>,
    pub born: u64,
    pub generations: Generations,
}

/// What happens to calls of steps, counted from 1 over all of them.
#[derive(Debug, Default)]
pub struct Faults {
    /// Calls made.
    pub calls: AtomicU64,
    /// The reply of this call is lost after it was executed.
    pub lose_reply: AtomicU64,
    /// The replies of all calls are lost after they were executed.
    pub lose_replies: AtomicBool,
    /// All calls are lost on their way.
    pub lose_requests: AtomicBool,
    /// All calls fail before they are executed.
    pub away: AtomicBool,
    /// All calls are refused for want of a right.
    pub forbidden: AtomicBool,
    /// All calls take so many milliseconds, half of them before they are executed.
    pub delay_ms: AtomicU64,
    /// The next refund finds the clock of the thread that sends it so many seconds ahead, once.
    pub leap_secs: AtomicU64,
    /// Renewals fail.
    pub no_renewal: AtomicBool,
    /// Wake-ups are dropped.
    pub no_wake: AtomicBool,
    pub looks: AtomicU32,
    pub acquires: AtomicU32,
    pub polls: AtomicU32,
    pub renewals: AtomicU32,
}

#[derive(Debug)]
pub struct Model {
    pub records: Mutex<HashMap<Object, Record>>,
    pub limits: limits::Limits,
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
    model_within(Duration::from_secs(2))
}

/// The same with a time limit of one request.
pub fn model_within(request_timeout: Duration) -> (Arc<Model>, Engine) {
    let (wake, wakes) = mpsc::unbounded_channel();
    let model = Arc::new(Model {
        records: Mutex::default(),
        limits: limits::Limits::new(),
        faults: Faults::default(),
        token: AtomicU64::new(0),
        wake,
    });
    let permits = Arc::clone(&model) as Arc<dyn PermitSteps>;
    let groups = Some(Arc::clone(&model) as Arc<dyn GroupSteps>);
    let limits = Some(Arc::clone(&model) as Arc<dyn LimitSteps>);
    let steps = Steps { permits, groups, limits, request_timeout };
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
        self.end(Some(Cause::Expired), |hold| hold.expires <= now);
    }

    /// Ends holds and tells how many.
    fn end(&mut self, cause: Option<Cause>, ends: impl Fn(&ModelHold) -> bool) -> u32 {
        let before = self.holds.len();
        let weight = self.holds.iter().filter(|hold| ends(hold)).map(|hold| hold.weight).sum();
        self.holds.retain(|hold| !ends(hold));
        self.generations.ended(cause, weight, self.holds.is_empty());
        u32::try_from(before - self.holds.len()).unwrap()
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
        if self.faults.forbidden.load(SeqCst) {
            return Err(Error::new(ErrorKind::Unauthorized, "forbidden"));
        }
        if !half.is_zero() {
            sleep(half).await;
        }
        if self.faults.lose_requests.load(SeqCst) {
            return Err(Error::new(ErrorKind::Unknown, "the request is lost"));
        }
        let answer = {
            let mut records = self.records.lock().unwrap();
            records.values_mut().for_each(Record::reap);
            let answer = run(&mut records);
            for hint in records.values_mut().flat_map(|record| record.generations.hints()) {
                if !self.faults.no_wake.load(SeqCst) {
                    let _ = self.wake.send(hint);
                }
            }
            answer
        };
        if !half.is_zero() {
            sleep(half).await;
        }
        if self.faults.lose_reply.load(SeqCst) == call || self.faults.lose_replies.load(SeqCst) {
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
        if limit != ask.limit && ask.check == LimitCheck::First(OnMismatch::Refuse) {
            return Acquired::Mismatch { stored: limit };
        }
        let expires = Instant::now() + ask.lease.get();
        if let Some(hold) = record.holds.iter_mut().find(|hold| hold.ticket == ask.ticket) {
            hold.expires = expires;
            return Acquired::Granted {
                token: FencingToken::new(hold.token).unwrap(),
                limit,
                born: record.born,
            };
        }
        let place = record.queue.iter().position(|(ticket, _)| *ticket == ask.ticket);
        let first = place.map_or(record.queue.is_empty(), |place| place == 0);
        if first && u64::from(record.used()) + u64::from(ask.weight) <= u64::from(limit) {
            let token = self.token.fetch_add(1, SeqCst) + 1;
            record.queue.retain(|(ticket, _)| *ticket != ask.ticket);
            if ask.object.kind == Kind::WaitGroup {
                record.generations.open();
                record.born = if record.born == 0 { token } else { record.born };
            }
            record.holds.push(ModelHold {
                ticket: ask.ticket,
                weight: ask.weight,
                token,
                granted: Instant::now(),
                expires,
            });
            self.wake(record, limit);
            return Acquired::Granted { token: FencingToken::new(token).unwrap(), limit, born: record.born };
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

    fn free(&self, record: &mut Record, cause: Option<Cause>, freed: impl Fn(Ticket) -> bool) -> u32 {
        let count = record.end(cause, |hold| freed(hold.ticket));
        if let Some(limit) = record.limit {
            self.wake(record, limit);
        }
        count
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
                if ask.call.is_some() && record.calls.get(&ask.ticket) == ask.call.as_ref() {
                    return Kept::Yes;
                }
                if ask.tombstone.is_some() {
                    record.tombstones.push(ask.ticket);
                }
                let cause = match ask.ending {
                    Ending::Finished => Cause::Finished,
                    Ending::Abandoned => Cause::Abandoned,
                };
                if self.free(record, Some(cause), |ticket| ticket == ask.ticket) == 0 {
                    return Kept::No;
                }
                record.calls.extend(ask.call.map(|call| (ask.ticket, call)));
                Kept::Yes
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
                if self.free(record, None, |ticket| ticket == ask.ticket) == 0 && queued == record.queue.len()
                {
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
            let token = FencingToken::new(hold.token).unwrap();
            Some(Attached { token, weight: hold.weight, born: record.born })
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
            self.free(record, Some(Cause::Abandoned), |ticket| {
                force == Force::All || force == Force::One(ticket)
            })
        })
        .await
    }

    async fn ping(&self) -> Result<()> {
        self.step(|_| ()).await
    }
}
