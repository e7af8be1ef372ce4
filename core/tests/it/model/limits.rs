//! The limiters of the model: buckets, and what a store remembers beside them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use stanchion_core::limiter::{Bucket, ExactQuota};
use stanchion_core::spi::{
    Answers, Decide, LimitAsk, Limited, Object, ParameterCheck, Refund, RequestId, refused,
};
use stanchion_core::{Error, ErrorKind, OnMismatch, Result, Ticket};
use tokio::time::{Instant, sleep};

use super::Model;
use super::faults::Stuck;

/// The state of one name.
#[derive(Debug, Default)]
pub struct Limit {
    pub bucket: Option<Bucket>,
    /// The last answers to each lane, and when they were given.
    pub memory: HashMap<Ticket, (u64, u64, Vec<Limited>)>,
    pub refunds: HashMap<Ticket, u64>,
    /// When the reservations come due.
    ahead: HashMap<Ticket, u64>,
}

#[derive(Debug)]
pub struct Limits {
    pub names: Mutex<HashMap<Object, Limit>>,
    /// Every flight as it was sent.
    pub flights: Mutex<Vec<(RequestId, Vec<Decide>)>>,
    origin: Instant,
    /// The latest time that any thread has seen: one clock for all.
    latest: AtomicU64,
}

impl Limits {
    pub fn new() -> Self {
        Self {
            names: Mutex::default(),
            flights: Mutex::default(),
            origin: Instant::now(),
            latest: AtomicU64::new(0),
        }
    }

    pub fn now(&self) -> u64 {
        // Some time after the origin, so that no time is 0.
        let now = u64::try_from(self.origin.elapsed().as_micros()).unwrap() + 1_000_000;
        self.latest.fetch_max(now, SeqCst).max(now)
    }

    /// The only name's bucket.
    pub fn bucket(&self) -> Bucket {
        let names = self.names.lock().unwrap();
        assert_eq!(names.len(), 1);
        names.values().next().unwrap().bucket.clone().unwrap()
    }

    /// How long until the only bucket is full, in µs.
    pub fn missing(&self) -> u64 {
        self.bucket().peek(self.now()).reset_after
    }
}

impl Limit {
    fn decide(&mut self, now: u64, flight: RequestId, calls: &[&Decide]) -> Result<Vec<Limited>> {
        match self.memory.get(&flight.sequence) {
            Some((number, decided, answers)) if *number == flight.number => {
                return Ok(answers
                    .iter()
                    .map(|answer| aged(*answer, now.saturating_sub(*decided)))
                    .collect());
            }
            Some((number, ..)) if *number > flight.number => {
                return Err(Error::new(ErrorKind::Unknown, "a later flight came before"));
            }
            _ => {}
        }
        let answers: Vec<_> = calls.iter().map(|call| self.answer(now, call)).collect();
        self.memory.insert(flight.sequence, (flight.number, now, answers.clone()));
        Ok(answers)
    }

    fn answer(&mut self, now: u64, call: &Decide) -> Limited {
        self.ahead.retain(|_, ready_at| *ready_at > now);
        let (LimitAsk::Take { cost } | LimitAsk::Reserve { cost, .. }) = call.ask;
        let keeps_none = self.bucket.is_none() && (cost == 0 || call.quota.check_cost(cost).is_err());
        let answer = self.answer_or_make(now, call);
        if keeps_none {
            self.bucket = None;
        }
        answer
    }

    fn answer_or_make(&mut self, now: u64, call: &Decide) -> Limited {
        let bucket = self.bucket.get_or_insert_with(|| Bucket::new(call.quota, now));
        if *bucket.quota() != call.quota {
            match call.check {
                ParameterCheck::First(OnMismatch::Replace) => bucket.set_quota(now, call.quota),
                ParameterCheck::First(OnMismatch::Adopt) | ParameterCheck::Follow => {}
                ParameterCheck::First(_) => return Limited::Mismatch { stored: *bucket.quota() },
            }
        }
        let quota = *bucket.quota();
        let answered = match call.ask {
            LimitAsk::Take { cost } => bucket.take(now, cost).map(|verdict| {
                let settled = self.ahead.is_empty();
                Limited::Taken { verdict, quota, settled }
            }),
            LimitAsk::Reserve { ticket, .. } if self.refunds.contains_key(&ticket) => Ok(Limited::Cancelled),
            LimitAsk::Reserve { ticket, cost, max_wait } => {
                bucket.reserve(now, ticket.as_u128(), cost, max_wait).map(|place| {
                    if let Some(place) = place.filter(|place| place.wait > 0 && cost > 0) {
                        self.ahead.insert(ticket, place.ready_at);
                    }
                    Limited::Reserved { place, quota }
                })
            }
        };
        answered.unwrap_or(Limited::TooLarge { quota })
    }
}

/// The answer of so long ago, with what is left of its waits.
fn aged(mut answer: Limited, elapsed: u64) -> Limited {
    match &mut answer {
        Limited::Taken { verdict, .. } => {
            verdict.retry_after = verdict.retry_after.map(|wait| wait.saturating_sub(elapsed));
            verdict.reset_after = verdict.reset_after.saturating_sub(elapsed);
        }
        Limited::Reserved { place: Some(place), .. } => place.wait = place.wait.saturating_sub(elapsed),
        _ => {}
    }
    answer
}

impl Model {
    pub(super) async fn decide(&self, calls: &[Decide]) -> Answers<Limited> {
        if let Err(error) = self.faults.pass(Stuck::Decide, calls.iter().map(|call| &call.object)).await {
            return refused(calls.len(), &error);
        }
        let entry = Duration::from_millis(self.faults.entry_ms.load(SeqCst));
        if !entry.is_zero() {
            sleep(entry * u32::try_from(calls.len()).unwrap()).await;
        }
        let flight = calls[0].id;
        self.limits.flights.lock().unwrap().push((flight, calls.to_vec()));
        let decided = self.step(|_| {
            let (mut names, now) = (self.limits.names.lock().unwrap(), self.limits.now());
            let mut answers: Vec<Option<Result<Limited>>> = calls.iter().map(|_| None).collect();
            for first in 0..calls.len() {
                if answers[first].is_some() {
                    continue;
                }
                let object = &calls[first].object;
                let same: Vec<_> = (first..calls.len()).filter(|i| calls[*i].object == *object).collect();
                let theirs: Vec<_> = same.iter().map(|i| &calls[*i]).collect();
                let decided = names.entry(object.clone()).or_default().decide(now, flight, &theirs);
                for (position, index) in same.into_iter().enumerate() {
                    answers[index] = Some(match &decided {
                        Ok(limited) => Ok(limited[position]),
                        Err(error) => Err(error.replicate()),
                    });
                }
            }
            answers.into_iter().map(Option::unwrap).collect()
        });
        decided.await.unwrap_or_else(|error| refused(calls.len(), &error))
    }

    pub(super) async fn refund(&self, batch: &[Refund]) -> Answers<u64> {
        self.faults.leap().await;
        if let Err(error) = self.faults.pass(Stuck::Refund, batch.iter().map(|ask| &ask.object)).await {
            return refused(batch.len(), &error);
        }
        self.each(batch.len(), |_| {
            let (mut names, now) = (self.limits.names.lock().unwrap(), self.limits.now());
            let refund = |refund: &Refund| {
                let limit = names.entry(refund.object.clone()).or_default();
                let Limit { bucket, refunds, ahead, .. } = limit;
                ahead.remove(&refund.ticket);
                *refunds.entry(refund.ticket).or_insert_with(|| {
                    bucket.as_mut().map_or(0, |bucket| bucket.cancel(now, refund.ticket.as_u128()))
                })
            };
            batch.iter().map(refund).collect()
        })
        .await
    }

    pub(super) async fn set_quota(&self, object: &Object, quota: ExactQuota) -> Result<()> {
        self.step(|_| {
            let (mut names, now) = (self.limits.names.lock().unwrap(), self.limits.now());
            let limit = names.entry(object.clone()).or_default();
            limit.bucket.get_or_insert_with(|| Bucket::new(quota, now)).set_quota(now, quota);
        })
        .await
    }

    pub(super) async fn reset(&self, object: &Object) -> Result<()> {
        self.step(|_| {
            let (mut names, now) = (self.limits.names.lock().unwrap(), self.limits.now());
            if let Some(limit) = names.get_mut(object) {
                limit.ahead.clear();
                limit.bucket.iter_mut().for_each(|bucket| bucket.reset(now));
            }
        })
        .await
    }
}
