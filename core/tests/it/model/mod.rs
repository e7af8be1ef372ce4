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
use stanchion_core::spi::{
    Acquire, Answers, Ask, Attach, Cancel, Clear, Decide, ForceRelease, Inspect, KeepPlaces, Lane, Look,
    Merge, Object, Ping, Poll, Probe, Read, Refund, Release, Renew, Request, RequestKind, Reset, Resize,
    Response, SetQuota, Split, Steps, Survey, Total, WakeSource, gather, refused, responses,
};
use stanchion_core::{Capabilities, Error, ErrorKind, MutexMode, Result, Ticket};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep};

use self::faults::lane_of;
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

/// A model, and the time limit of its requests.
#[derive(Debug)]
struct ModelSteps {
    model: Arc<Model>,
    request_timeout: Duration,
}

/// Requests of one kind that a batch has.
fn own<A: Ask>(entries: &[&Request]) -> Vec<A> {
    entries.iter().filter_map(|request| A::of(request)).cloned().collect()
}

/// Asks for each entry alone.
macro_rules! one_by_one {
    ($entries:expr, $kind:ident, |$ask:ident| $answer:expr) => {{
        let mut answers = Vec::new();
        for $ask in own::<$kind>($entries) {
            answers.push($answer.await.map(<$kind as Ask>::response));
        }
        answers
    }};
}

impl ModelSteps {
    async fn send_kind(&self, kind: RequestKind, entries: &[&Request]) -> Answers<Response> {
        let model = &self.model;
        match kind {
            RequestKind::Acquire => responses::<Acquire>(model.acquire(&own(entries)).await),
            RequestKind::Renew => responses::<Renew>(model.renew(&own(entries)).await),
            RequestKind::Release => responses::<Release>(model.release(&own(entries)).await),
            RequestKind::Cancel => responses::<Cancel>(model.cancel(&own(entries)).await),
            RequestKind::Poll => {
                let objects: Vec<_> = own::<Poll>(entries).into_iter().map(|poll| poll.object).collect();
                responses::<Poll>(model.poll(&objects).await)
            }
            RequestKind::KeepPlaces => {
                let objects: Vec<_> =
                    own::<KeepPlaces>(entries).into_iter().map(|place| place.object).collect();
                responses::<KeepPlaces>(model.keep_places(&objects).await)
            }
            RequestKind::Look => responses::<Look>(model.look(&own(entries)).await),
            RequestKind::Decide => responses::<Decide>(model.decide(&own(entries)).await),
            RequestKind::Refund => responses::<Refund>(model.refund(&own(entries)).await),
            RequestKind::Probe => responses::<Probe>(model.probe(&own(entries)).await),
            RequestKind::Attach => one_by_one!(entries, Attach, |ask| model.attach(&ask)),
            RequestKind::Split => one_by_one!(entries, Split, |ask| model.split(&ask)),
            RequestKind::Inspect => {
                one_by_one!(entries, Inspect, |ask| model.inspect(&ask.object))
            }
            RequestKind::Total => {
                one_by_one!(entries, Total, |ask| model.usage(&ask.object))
            }
            _ => self.send_rare(kind, entries).await,
        }
    }

    async fn send_rare(&self, kind: RequestKind, entries: &[&Request]) -> Answers<Response> {
        let model = &self.model;
        match kind {
            RequestKind::Resize => one_by_one!(entries, Resize, |ask| model.resize(&ask.object, ask.limit)),
            RequestKind::ForceRelease => {
                one_by_one!(entries, ForceRelease, |ask| model.force(&ask.object, ask.force))
            }
            RequestKind::SetQuota => {
                one_by_one!(entries, SetQuota, |ask| model.set_quota(&ask.object, ask.quota))
            }
            RequestKind::Reset => one_by_one!(entries, Reset, |ask| model.reset(&ask.object)),
            RequestKind::Merge => one_by_one!(entries, Merge, |ask| model.merge(&ask)),
            RequestKind::Clear => one_by_one!(entries, Clear, |ask| model.clear(&ask.object)),
            RequestKind::Survey => one_by_one!(entries, Survey, |ask| model.survey(&ask.object, ask.seen)),
            RequestKind::Read => {
                one_by_one!(entries, Read, |ask| model.read(&ask.object, ask.seen, ask.chunk))
            }
            RequestKind::Ping => one_by_one!(entries, Ping, |_ask| model.ping()),
            _ => entries.iter().map(|request| Err(request.unsupported())).collect(),
        }
    }
}

#[async_trait]
impl Steps for ModelSteps {
    fn lane(&self, request: &Request) -> Lane {
        let server = request.object().map_or(0, lane_of);
        match request {
            Request::Acquire(_) | Request::Release(_) if self.model.faults.exchanges.load(SeqCst) => {
                Lane { server, queue: 0 }
            }
            _ => Lane::of_kind(server, request),
        }
    }

    /// The releases first.
    async fn send(&self, batch: &[Request], _: Instant) -> Answers<Response> {
        let mut kinds: Vec<_> = batch.iter().map(Request::kind).collect();
        kinds.sort_unstable_by_key(|kind| (*kind != RequestKind::Release, *kind));
        kinds.dedup();
        let mut parts = Vec::new();
        for kind in kinds {
            let places: Vec<_> = (0..batch.len()).filter(|index| batch[*index].kind() == kind).collect();
            let entries: Vec<_> = places.iter().map(|index| &batch[*index]).collect();
            parts.push((places, self.send_kind(kind, &entries).await));
        }
        gather(batch.len(), parts)
    }

    fn request_timeout(&self) -> Duration {
        self.request_timeout
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
    let own = Background { wake: Some(model.wakes()), ..Background::new(Arc::clone(&steps)) };
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

    /// Its steps, with a time limit of one request.
    pub fn steps(self: &Arc<Self>, request_timeout: Duration) -> Arc<dyn Steps> {
        Arc::new(ModelSteps { model: Arc::clone(self), request_timeout })
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
