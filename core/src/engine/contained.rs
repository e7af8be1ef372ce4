//! The steps of a store, each batch with a time limit (C17), in parts where it had no answer in
//! time, and with its panics contained (C27).
//!
//! The engine calls a store only through these. A request without an answer in time is answered as
//! unknown. A store that panics has broken off between two changes of its own state, so that
//! nothing it says can be relied on: the store object is closed, which loses its guards and ends
//! all waiting, and every later call says why.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{FutureExt, join_all};

use crate::clock::{Instant, now, timeout_at};
use crate::connect::LATE_ANSWER;
use crate::engine::part_sizes::PartSizes;
use crate::observe::availability::{Availability, Outages};
use crate::observe::metering::StoreMeter;
use crate::spi::{
    Answers, Chore, Lane, Object, Reports, Request, RequestKind, Response, Steps, WakeSource, refused, short,
};
use crate::sync::{Notify, caught};
use crate::{Error, ErrorKind, Result, Ticket};

/// Extra time after a store's own time limit, before the engine ends a request.
pub(crate) const REQUEST_GRACE: Duration = Duration::from_millis(50);

/// What all steps of one store object share: whether one of them has panicked, and whether the
/// store answers.
#[derive(Debug)]
pub(crate) struct Containment {
    /// The first step that panicked.
    panicked: OnceLock<&'static str>,
    noted: Notify,
    pub(crate) availability: Availability,
    /// Shared with the other engines of the store.
    pub(crate) outages: Arc<Outages>,
    pub(crate) part_sizes: Arc<PartSizes>,
    requests: AtomicU64,
}

impl Containment {
    /// `shares_servers` if the lanes of all engines of the store lead to the same servers.
    pub(crate) fn new(outages: Arc<Outages>, shares_servers: bool) -> Self {
        Self {
            panicked: OnceLock::new(),
            noted: Notify::new(),
            availability: Availability::new(Arc::clone(&outages), shares_servers),
            outages,
            part_sizes: Arc::default(),
            requests: AtomicU64::new(0),
        }
    }

    /// Returns how many requests were sent.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// # Errors
    /// `Closed` once a step has panicked.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(step) = self.panicked.get() else { return Ok(()) };
        let detail = format!("`{step}` of the store panicked, so the store was closed: connect again");
        Err(Error::new(ErrorKind::Closed, detail))
    }

    /// Notes that a step has panicked.
    pub(crate) fn note_panic(&self, step: &'static str) {
        if self.panicked.set(step).is_ok() {
            tracing::error!(
                name: "stanchion.store.panicked",
                {
                    stanchion.store = self.outages.store,
                    stanchion.step = step,
                },
                "a step of the store panicked, and the store is closed"
            );
        }
        self.noted.notify_one();
    }

    /// Resolves once a step has panicked. For one caller.
    pub(crate) async fn panicked(&self) {
        while self.panicked.get().is_none() {
            self.noted.notified().await;
        }
    }

    /// Does some work of the store; `None` if it panics.
    fn catch<T>(
        &self,
        step: &'static str,
        work: impl Future<Output = T> + Send,
    ) -> impl Future<Output = Option<T>> + Send {
        caught(work).inspect(move |done| {
            if done.is_none() {
                self.note_panic(step);
            }
        })
    }

    /// Puts the time limits and the containment around the steps of a store.
    pub(crate) fn around(self: &Arc<Self>, steps: Arc<dyn Steps>) -> Arc<dyn Steps> {
        Arc::new(Contained { inner: steps, containment: Arc::clone(self) })
    }

    /// Puts the containment around a source of wake-ups. It has no time limit: a wait for hints is
    /// no request.
    pub(crate) fn around_wake(self: &Arc<Self>, wake: Arc<dyn WakeSource>) -> Arc<dyn WakeSource> {
        Arc::new(Contained { inner: wake, containment: Arc::clone(self) })
    }

    /// Runs a chore until it ends or panics.
    pub(crate) async fn run_chore(&self, chore: Arc<dyn Chore>, reports: Reports) {
        self.catch("a chore", async { chore.run(&reports).await }).await;
    }

    /// Returns the error of an answer that says nothing of the request itself. `Closed` is one
    /// where the way to the server is closed, not the store.
    fn outage<'a>(&self, answer: &'a Result<Response>) -> Option<&'a Error> {
        let is_away = |error: &&Error| {
            !error.kind().is_final() || (error.kind() == ErrorKind::Closed && self.check().is_ok())
        };
        answer.as_ref().err().filter(is_away)
    }

    /// Notes what the answers to a batch say of the store.
    fn judge(&self, batch: &Batch, answers: &Answers<Response>) {
        let at = now();
        let meter = StoreMeter { store: self.outages.store };
        let outage = |answer| self.outage(answer);
        let failed = answers.first().and_then(outage).filter(|_| answers.iter().all(|a| outage(a).is_some()));
        match failed {
            // Also where a connection was given up before: it may only have been slow to pass.
            Some(error)
                if at >= batch.end
                    || (error.kind() == ErrorKind::Unknown && at - batch.sent >= LATE_ANSWER) =>
            {
                self.part_sizes.outlasted(batch.lane, batch.count, batch.sent, at);
            }
            Some(_) => {}
            None => {
                let limit = batch.end - batch.sent;
                self.part_sizes.answered(batch.lane, batch.count, batch.sent, limit, at);
            }
        }
        let silent = failed.filter(|_| !answers.iter().filter_map(outage).any(Error::is_answer));
        meter.requested(batch.kind.as_str(), silent.is_none(), at - batch.sent);
        match silent {
            Some(error) => self.availability.failed(batch.request, error),
            None => self.availability.answered(batch.request),
        }
    }
}

/// A batch under way.
struct Batch {
    kind: RequestKind,
    lane: Lane,
    count: usize,
    sent: Instant,
    end: Instant,
    request: crate::observe::availability::Request,
}

/// What a store implements, with its panics contained.
struct Contained<S: ?Sized> {
    inner: Arc<S>,
    containment: Arc<Containment>,
}

impl Contained<dyn Steps> {
    /// Sends a batch as it is.
    async fn send_whole(&self, lane: Lane, batch: &[Request], end: Instant) -> Answers<Response> {
        let Some(first) = batch.first() else { return Vec::new() };
        let containment = &*self.containment;
        containment.requests.fetch_add(1, Ordering::Relaxed);
        let (kind, count, sent) = (first.kind(), batch.len(), now());
        let request = containment.availability.sent(lane.server);
        let under_way = Batch { kind, lane, count, sent, end, request };
        let answered = containment.catch(kind.as_str(), self.inner.send(batch, end));
        let mut answers = match timeout_at(end + REQUEST_GRACE, answered).await {
            Ok(Some(answers)) => answers,
            Ok(None) => refused(count, &containment.check().err().unwrap_or_else(Error::closed)),
            Err(_) => refused(count, &unanswered()),
        };
        answers.resize_with(count, || Err(short()));
        containment.judge(&under_way, &answers);
        answers
    }
}

/// Returns the error of a request that the store did not answer in time.
pub(crate) fn unanswered() -> Error {
    Error::new(ErrorKind::Unknown, "no answer within the request's time limit")
}

impl<S: fmt::Debug + ?Sized> fmt::Debug for Contained<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl Steps for Contained<dyn Steps> {
    fn lane(&self, request: &Request) -> Lane {
        self.inner.lane(request)
    }

    fn request_timeout(&self) -> Duration {
        self.inner.request_timeout()
    }

    fn maximum_positions(&self) -> usize {
        self.inner.maximum_positions()
    }

    /// Sends a batch, in parts side by side if one of its lane outlasted its limit before.
    async fn send(&self, batch: &[Request], end: Instant) -> Answers<Response> {
        let Some(first) = batch.first() else { return Vec::new() };
        let lane = self.inner.lane(first);
        // The answer to a batch that is in turn is kept for all of it.
        let is_whole = first.kind().is_in_turn();
        let most = if is_whole { usize::MAX } else { self.containment.part_sizes.most(lane, now()) };
        if batch.len() <= most {
            return self.send_whole(lane, batch, end).await;
        }
        let parts = batch.chunks(most).map(|part| self.send_whole(lane, part, end));
        join_all(parts).await.into_iter().flatten().collect()
    }
}

#[async_trait]
impl WakeSource for Contained<dyn WakeSource> {
    fn watch(&self, object: &Object, waited_for: bool) {
        if catch_unwind(AssertUnwindSafe(|| self.inner.watch(object, waited_for))).is_err() {
            self.containment.note_panic("watch");
        }
    }

    async fn next(&self) -> Result<Vec<Ticket>> {
        match self.containment.catch("next", self.inner.next()).await {
            Some(hints) => hints,
            None => self.containment.check().map(|()| Vec::new()),
        }
    }
}
