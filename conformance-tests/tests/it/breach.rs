//! Steps of a process of the model, with a planted breach.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::clock::Instant;
use stanchion_core::spi::{
    Acquire, Acquired, Answers, Ask, Cancel, Decide, Ending, Kept, Lane, NO_LIMIT, ParameterCheck, Poll,
    Polled, Purpose, Release, Request, RequestId, Response, Steps, StepsExt,
};
use stanchion_core::{Kind, Result, Ticket, Ttl};

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
    model: Arc<dyn Steps>,
    breach: Option<Breach>,
    asked: Mutex<HashSet<Ticket>>,
    granted: Mutex<HashMap<Ticket, Acquired>>,
    ended: Mutex<HashSet<Ticket>>,
}

impl Client {
    pub(crate) fn new(model: &Arc<Model>, breach: Option<Breach>) -> Self {
        Self {
            model: model.steps(Duration::from_secs(2)),
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
        let answer = self.model.ask(ask.clone()).await;
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
        self.model.ask(release).await
    }

    async fn poll_one(&self, poll: &Poll) -> Result<Polled> {
        let mut polled = self.model.ask(poll.clone()).await?;
        let asked = self.asked.lock().expect("no panic");
        polled.ready.retain(|ticket| asked.contains(ticket) && !self.has(Breach::SilentPoll));
        Ok(polled)
    }

    /// Returns the id of the batch that a call of a limiter leaves in.
    fn id(request: &Request) -> Option<RequestId> {
        Decide::of(request).map(|call| call.id)
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
        drop(self.model.ask(member).await);
        let end = Release { ticket, tombstone: None, call: None, ..release.clone() };
        drop(self.model.ask(end).await);
    }
}

/// Returns the release of which a cancel without a tombstone is the same.
fn without_tombstone(cancel: &Cancel) -> Release {
    Release {
        object: cancel.object.clone(),
        ticket: cancel.ticket,
        ending: Ending::Abandoned,
        tombstone: None,
        call: None,
    }
}

#[async_trait]
impl Steps for Client {
    fn lane(&self, request: &Request) -> Lane {
        self.model.lane(request)
    }

    async fn send(&self, batch: &[Request], end: Instant) -> Answers<Response> {
        let mut answers = Vec::new();
        let mut rest = batch;
        while let Some(request) = rest.first() {
            // The calls of one batch of a limiter are one request to the model.
            let id = Self::id(request);
            let length = rest.iter().take_while(|other| id.is_some() && Self::id(other) == id).count().max(1);
            let (part, others) = rest.split_at(length);
            rest = others;
            answers.extend(match request {
                Request::Acquire(acquire) => vec![self.acquire_one(acquire).await.map(Response::Acquire)],
                Request::Release(release) => vec![self.release_one(release).await.map(Response::Release)],
                Request::Cancel(cancel) if self.has(Breach::NoTombstone) => {
                    let released = self.model.ask(without_tombstone(cancel)).await;
                    vec![released.map(|_| Response::Cancel(()))]
                }
                Request::Poll(poll) => vec![self.poll_one(poll).await.map(Response::Poll)],
                Request::Decide(_) if self.has(Breach::ChargedAgain) => {
                    self.model.send(&under_another_id(part), end).await
                }
                _ => self.model.send(part, end).await,
            });
        }
        answers
    }

    fn request_timeout(&self) -> Duration {
        self.model.request_timeout()
    }
}

/// Returns the calls of a limiter as another batch.
fn under_another_id(calls: &[Request]) -> Vec<Request> {
    let id = RequestId { sequence: Ticket::random(), number: 1 };
    let calls = calls.iter().filter_map(Decide::of);
    calls.map(|call| Decide { id, ..call.clone() }.into()).collect()
}
