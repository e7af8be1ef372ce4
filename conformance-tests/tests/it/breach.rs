//! Steps of a process of the model, with a planted breach.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use stanchion_core::limiter::ExactQuota;
use stanchion_core::spi::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Decide, Ending, Force, GroupSteps, Kept,
    LimitSteps, Limited, Look, Looked, NO_LIMIT, Object, ParameterCheck, PermitSteps, Polled, Purpose,
    Refund, Release, Renew, RequestId, Split,
};
use stanchion_core::{Inspection, Kind, Result, Ticket, Ttl};

use crate::model::Model;

/// A rule that an author of steps may have left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breach {
    /// A retried acquire is granted again.
    SecondHold,
    /// A retried acquire is answered, but keeps its old lease.
    OldLease,
    /// A retried release is answered that there was nothing to release.
    ForgottenCall,
    /// Neither a cancel nor a release leaves a tombstone for late copies.
    NoTombstone,
    /// A retried `done` counts its member again.
    CountedAgain,
    /// A retried limit batch is charged again.
    ChargedAgain,
    /// A poll never reports a waiter as ready.
    SilentPoll,
}

/// The steps of one process.
#[derive(Debug)]
pub(crate) struct Client {
    model: Arc<Model>,
    breach: Option<Breach>,
    asked: Mutex<HashSet<Ticket>>,
    granted: Mutex<HashMap<Ticket, Acquired>>,
    ended: Mutex<HashSet<Ticket>>,
}

impl Client {
    pub(crate) fn new(model: &Arc<Model>, breach: Option<Breach>) -> Self {
        Self {
            model: Arc::clone(model),
            breach,
            asked: Mutex::default(),
            granted: Mutex::default(),
            ended: Mutex::default(),
        }
    }

    fn has(&self, breach: Breach) -> bool {
        self.breach == Some(breach)
    }

    async fn acquire_one(&self, ask: &Acquire) -> Result<Acquired> {
        self.asked.lock().expect("no panic").insert(ask.ticket);
        let before = self.granted.lock().expect("no panic").get(&ask.ticket).cloned();
        let mut ask = ask.clone();
        if let Some(before) = before {
            if self.has(Breach::OldLease) {
                return Ok(before);
            }
            if self.has(Breach::SecondHold) {
                ask.ticket = Ticket::random();
            }
        }
        let answer = self.model.acquire(std::slice::from_ref(&ask)).await.remove(0);
        if let Ok(granted @ Acquired::Granted { .. }) = &answer {
            self.granted.lock().expect("no panic").insert(ask.ticket, granted.clone());
        }
        answer
    }

    async fn release_one(&self, release: &Release) -> Result<Kept> {
        let mut release = release.clone();
        if self.has(Breach::ForgottenCall) || self.has(Breach::NoTombstone) {
            release.call = None;
        }
        if self.has(Breach::NoTombstone) {
            release.tombstone = None;
        }
        let again = !self.ended.lock().expect("no panic").insert(release.ticket);
        if again && self.has(Breach::CountedAgain) && release.object.kind == Kind::WaitGroup {
            self.count_again(&release).await;
        }
        self.model.release(std::slice::from_ref(&release)).await.remove(0)
    }

    /// Adds a member with an unknown ticket, and ends it.
    async fn count_again(&self, release: &Release) {
        let ticket = Ticket::random();
        let member = Acquire {
            object: release.object.clone(),
            ticket,
            weight: 1,
            lease: Ttl::DEFAULT,
            limit: NO_LIMIT,
            check: ParameterCheck::Follow,
            queue: false,
            max_waiters: None,
            label: None,
            purpose: Purpose::Guard,
        };
        drop(self.model.acquire(&[member]).await);
        let end = Release { ticket, tombstone: None, call: None, ..release.clone() };
        drop(self.model.release(&[end]).await);
    }
}

#[async_trait]
impl PermitSteps for Client {
    fn lane(&self, object: &Object) -> usize {
        PermitSteps::lane(self.model.as_ref(), object)
    }

    fn exchange_lane(&self, object: &Object) -> Option<usize> {
        self.model.exchange_lane(object)
    }

    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        let mut answers = Vec::new();
        for ask in batch {
            answers.push(self.acquire_one(ask).await);
        }
        answers
    }

    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        self.model.renew(batch).await
    }

    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        let mut answers = Vec::new();
        for release in batch {
            answers.push(self.release_one(release).await);
        }
        answers
    }

    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        if !self.has(Breach::NoTombstone) {
            return self.model.cancel(batch).await;
        }
        let release = |Cancel { object, ticket, .. }: &Cancel| Release {
            object: object.clone(),
            ticket: *ticket,
            ending: Ending::Abandoned,
            tombstone: None,
            call: None,
        };
        let releases: Vec<_> = batch.iter().map(release).collect();
        self.model.release(&releases).await.into_iter().map(|answer| answer.map(drop)).collect()
    }

    async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        let mut answers = self.model.poll(batch).await;
        let asked = self.asked.lock().expect("no panic");
        for polled in answers.iter_mut().flatten() {
            polled.ready.retain(|ticket| asked.contains(ticket) && !self.has(Breach::SilentPoll));
        }
        answers
    }

    async fn attach(&self, attach: &Attach) -> Result<Option<Attached>> {
        self.model.attach(attach).await
    }

    async fn inspect(&self, object: &Object) -> Result<Inspection> {
        self.model.inspect(object).await
    }

    async fn resize(&self, object: &Object, limit: u32) -> Result<()> {
        self.model.resize(object, limit).await
    }

    async fn force(&self, object: &Object, force: Force) -> Result<u32> {
        self.model.force(object, force).await
    }

    async fn ping(&self) -> Result<()> {
        self.model.ping().await
    }
}

#[async_trait]
impl GroupSteps for Client {
    fn lane(&self, object: &Object) -> usize {
        GroupSteps::lane(self.model.as_ref(), object)
    }

    async fn look(&self, batch: &[Look]) -> Answers<Looked> {
        self.model.look(batch).await
    }

    async fn split(&self, split: &Split) -> Result<bool> {
        self.model.split(split).await
    }
}

#[async_trait]
impl LimitSteps for Client {
    fn lane(&self, object: &Object) -> usize {
        LimitSteps::lane(self.model.as_ref(), object)
    }

    async fn decide(&self, request: RequestId, calls: &[Decide]) -> Answers<Limited> {
        let another = RequestId { sequence: Ticket::random(), number: 1 };
        let request = if self.has(Breach::ChargedAgain) { another } else { request };
        self.model.decide(request, calls).await
    }

    async fn refund(&self, batch: &[Refund]) -> Answers<u64> {
        self.model.refund(batch).await
    }

    async fn set_quota(&self, object: &Object, quota: ExactQuota) -> Result<()> {
        self.model.set_quota(object, quota).await
    }

    async fn reset(&self, object: &Object) -> Result<()> {
        self.model.reset(object).await
    }
}
