//! A sequential model of a lease store, with faults to order: what the engine is tested against.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a store of its own, with real time"
)]

pub mod drop_after;
pub mod faults;
pub mod filters;
mod groups;
mod limits;
mod permits;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::engine::{Background, Engine};
use stanchion_core::spi::{Answers, GroupSteps, LimitSteps, Object, PermitSteps, Steps, WakeSource, refused};
use stanchion_core::{Capabilities, Error, ErrorKind, MutexMode, Result, Ticket};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep};

pub use self::faults::{Faults, Stuck};
use self::groups::Generations;

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
    /// Until when each is refused.
    pub tombstones: HashMap<Ticket, Instant>,
    /// The calls that ended holds, by ticket.
    pub calls: HashMap<Ticket, Ticket>,
    pub epoch: u64,
    pub generations: Generations,
}

#[derive(Debug)]
pub struct Model {
    pub records: Mutex<HashMap<Object, Record>>,
    pub limits: limits::Limits,
    pub filters: filters::Filters,
    pub faults: Faults,
    token: AtomicU64,
    wake: broadcast::Sender<Ticket>,
}

#[derive(Debug)]
struct Wakes(tokio::sync::Mutex<broadcast::Receiver<Ticket>>, Arc<Model>);

#[async_trait]
impl WakeSource for Wakes {
    fn watch(&self, _: &Object, _: bool) {}

    async fn next(&self) -> Result<Vec<Ticket>> {
        self.1.faults.pass(Stuck::Wake, std::iter::empty()).await?;
        let mut wakes = self.0.lock().await;
        match tokio::time::timeout(Duration::from_millis(500), wakes.recv()).await {
            Ok(Ok(ticket)) => Ok(vec![ticket]),
            Ok(Err(broadcast::error::RecvError::Lagged(_))) | Err(_) => Ok(Vec::new()),
            Ok(Err(broadcast::error::RecvError::Closed)) => {
                Err(Error::new(ErrorKind::Unavailable, "the model is gone"))
            }
        }
    }
}

/// A model and an engine over it.
pub fn model() -> (Arc<Model>, Engine) {
    model_within(Duration::from_secs(2))
}

/// The same with a time limit of one request.
pub fn model_within(request_timeout: Duration) -> (Arc<Model>, Engine) {
    let model = Model::new();
    let steps = model.steps(request_timeout);
    let own = Background { wake: Some(model.wakes()), ..Background::new(steps.clone()) };
    let engine = Engine::start(Capabilities::full("model", MutexMode::Lease), steps, own).unwrap();
    (model, engine)
}

impl Model {
    /// A store without a record.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            records: Mutex::default(),
            limits: limits::Limits::new(),
            filters: filters::Filters::default(),
            faults: Faults::default(),
            token: AtomicU64::new(0),
            wake: broadcast::Sender::new(4_096),
        })
    }

    /// All of its steps, with a time limit of one request.
    pub fn steps(self: &Arc<Self>, request_timeout: Duration) -> Steps {
        let permits = Arc::clone(self) as Arc<dyn PermitSteps>;
        let mut steps = Steps::new(permits, request_timeout);
        steps.groups = Some(Arc::clone(self) as Arc<dyn GroupSteps>);
        steps.limits = Some(Arc::clone(self) as Arc<dyn LimitSteps>);
        steps.bloom = Some(Arc::clone(self) as Arc<dyn stanchion_core::spi::BloomSteps>);
        steps
    }

    /// Every hint from now on, also those to other processes.
    pub fn wakes(self: &Arc<Self>) -> Arc<dyn WakeSource> {
        Arc::new(Wakes(tokio::sync::Mutex::new(self.wake.subscribe()), Arc::clone(self)))
    }

    /// Runs a step on a record, with the faults ordered.
    async fn step<T>(&self, run: impl FnOnce(&mut HashMap<Object, Record>) -> T) -> Result<T> {
        let call = self.faults.calls.fetch_add(1, SeqCst) + 1;
        let half = Duration::from_millis(self.faults.delay_ms.load(SeqCst) / 2);
        if self.faults.away.load(SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "away"));
        }
        if self.faults.refuses.load(SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "refused").of_a_store_that_answers());
        }
        if self.faults.forbidden.load(SeqCst) {
            return Err(Error::new(ErrorKind::Unauthorized, "forbidden"));
        }
        if !half.is_zero() {
            sleep(half).await;
        }
        let lost_from = self.faults.lose_from.load(SeqCst);
        if self.faults.lose_requests.load(SeqCst) || (lost_from > 0 && call >= lost_from) {
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

    /// Everything held and queued, over all objects.
    pub fn left(&self) -> (usize, usize) {
        let mut records = self.records.lock().unwrap();
        records.values_mut().for_each(Record::reap);
        records
            .values()
            .fold((0, 0), |(held, queued), record| (held + record.holds.len(), queued + record.queue.len()))
    }
}
