//! The steps of a store, each with a time limit (C17), in parts where it had no answer in time, and with its panics contained
//! (C27).
//!
//! The engine calls a store only through these. A step without an answer in time is answered as unknown. A step that panics
//! has broken off between two changes of the store's own state, so that nothing the store says can be relied on: the store
//! object is closed, which loses its guards and ends all waiting, and every later call says why.

mod bloom;
mod listing;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;

use crate::clock::now;
use crate::clock::timeout;
use crate::engine::part_sizes::PartSizes;
use crate::limiter::ExactQuota;
use crate::observe::availability::{Availability, Outages};
use crate::observe::metering::StoreMeter;
use crate::spi::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Chore, Exchange, Exchanged, Force, GroupSteps,
    Kept, LimitCall, LimitSteps, Limited, Look, Looked, Object, PermitSteps, Polled, Refund, Release, Renew,
    Reports, RequestId, Split, Steps, Usage, WakeSource, refused,
};
use crate::sync::{Notify, caught};
use crate::{Error, ErrorKind, Inspection, Result, Ticket, Ttl};

/// Extra time after the steps' own time limit, before the engine ends a request.
pub(crate) const REQUEST_GRACE: Duration = Duration::from_millis(50);

/// What all steps of one store object share: whether one of them has panicked, and whether the store answers.
#[derive(Debug)]
pub(crate) struct Containment {
    /// The first step that panicked.
    panicked: OnceLock<&'static str>,
    noted: Notify,
    availability: Availability,
    /// Shared with the other engines of the store.
    pub(crate) outages: Arc<Outages>,
    pub(crate) part_sizes: PartSizes,
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
            part_sizes: PartSizes::default(),
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
    pub(crate) async fn catch<T>(
        &self,
        step: &'static str,
        work: impl Future<Output = T> + Send,
    ) -> Option<T> {
        let done = caught(work).await;
        if done.is_none() {
            self.note_panic(step);
        }
        done
    }

    /// Puts the time limits and the containment around the steps of a store.
    pub(crate) fn around(self: &Arc<Self>, steps: Steps) -> Steps {
        let limit = steps.request_timeout;
        Steps {
            permits: Arc::new(self.contained(steps.permits, limit)),
            groups: steps.groups.map(|groups| Arc::new(self.contained(groups, limit)) as _),
            limits: steps.limits.map(|limits| Arc::new(self.contained(limits, limit)) as _),
            bloom: steps.bloom.map(|bloom| Arc::new(self.contained(bloom, limit)) as _),
            listing: steps.listing.map(|listing| Arc::new(self.contained(listing, limit)) as _),
            request_timeout: limit,
        }
    }

    /// Puts the containment around a source of wake-ups. It has no time limit: a wait for hints is no request.
    pub(crate) fn around_wake(self: &Arc<Self>, wake: Arc<dyn WakeSource>) -> Arc<dyn WakeSource> {
        Arc::new(self.contained(wake, Duration::MAX))
    }

    fn contained<S: ?Sized>(self: &Arc<Self>, steps: Arc<S>, limit: Duration) -> Contained<S> {
        Contained { steps, limit, containment: Arc::clone(self) }
    }

    /// Runs a chore until it ends or panics.
    pub(crate) async fn run_chore(&self, chore: Arc<dyn Chore>, reports: Reports) {
        self.catch("a chore", async { chore.run(&reports).await }).await;
    }
}

/// A request under way.
type Sending<'a, T> = Pin<Box<dyn Future<Output = Answers<T>> + Send + 'a>>;

/// Steps with time limits, whose panics are contained.
struct Contained<S: ?Sized> {
    steps: Arc<S>,
    limit: Duration,
    containment: Arc<Containment>,
}

impl<S: Send + Sync + ?Sized> Contained<S> {
    /// Runs a step within its time limit.
    async fn run<T: Send>(
        &self,
        step: &'static str,
        limit: Duration,
        work: impl Future<Output = T> + Send,
    ) -> Result<T> {
        match timeout(limit.saturating_add(REQUEST_GRACE), self.containment.catch(step, work)).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => self.containment.check().and(Err(Error::closed())),
            Err(_) => Err(Error::new(ErrorKind::Unknown, "no answer within the request's time limit")),
        }
    }

    /// The answers to a request of `count` entries, of that lane, within the limit of requests, or of one for holds with
    /// `lease`.
    async fn each<T: Send>(
        &self,
        step: &'static str,
        (lane, count): (usize, usize),
        lease: Option<Ttl>,
        work: impl Future<Output = Answers<T>> + Send,
    ) -> Answers<T> {
        let Containment { availability, part_sizes, outages, .. } = &*self.containment;
        let meter = StoreMeter { store: outages.store };
        self.containment.requests.fetch_add(1, Ordering::Relaxed);
        let request = availability.sent(lane);
        let limit = lease.map_or(self.limit, |lease| lease.request_limit(self.limit));
        let sent = now();
        let mut answers = self.run(step, limit, work).await.unwrap_or_else(|error| refused(count, &error));
        answers.resize_with(count, || Err(short()));
        let at = now();
        let outage = |answer: &Result<T>| answer.as_ref().err().is_some_and(|error| !error.kind().is_final());
        match answers.first() {
            Some(Err(error)) if answers.iter().all(outage) => {
                if at >= sent + limit {
                    part_sizes.outlasted((step, lane), count, at);
                }
                let is_answered =
                    answers.iter().flat_map(|answer| answer.as_ref().err()).any(Error::is_answer);
                meter.requested(step, is_answered, at - sent);
                if is_answered {
                    availability.answered(request);
                } else {
                    availability.failed(request, error);
                }
            }
            _ => {
                meter.requested(step, true, at - sent);
                availability.answered(request);
            }
        }
        answers
    }

    /// The answers to a batch of one lane, which leaves in parts, side by side, if a request outlasted its limit before.
    async fn parts<'a, A: Sync, T: Send>(
        &'a self,
        step: &'static str,
        lane: usize,
        batch: &'a [A],
        lease: impl Fn(&[A]) -> Option<Ttl> + Send + Sync,
        send: impl Fn(&'a [A]) -> Sending<'a, T> + Send + Sync,
    ) -> Answers<T> {
        let part = |part: &'a [A]| self.each(step, (lane, part.len()), lease(part), send(part));
        let most = self.containment.part_sizes.most((step, lane), now());
        if batch.len() <= most {
            return part(batch).await;
        }
        join_all(batch.chunks(most).map(part)).await.into_iter().flatten().collect()
    }

    async fn one<T: Send>(
        &self,
        step: &'static str,
        lane: usize,
        lease: Option<Ttl>,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let work = async { vec![work.await] };
        let mut answers = self.each(step, (lane, 1), lease, work).await;
        answers.pop().unwrap_or_else(|| Err(Error::closed()))
    }
}

/// The answer to an entry that the store left out.
pub(crate) fn short() -> Error {
    Error::new(ErrorKind::Unknown, "the store's answer was too short")
}

impl<S: fmt::Debug + ?Sized> fmt::Debug for Contained<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.fmt(f)
    }
}

#[async_trait]
impl PermitSteps for Contained<dyn PermitSteps> {
    fn lane(&self, object: &Object) -> usize {
        self.steps.lane(object)
    }

    fn exchange_lane(&self, object: &Object) -> Option<usize> {
        self.steps.exchange_lane(object)
    }

    async fn exchange(&self, batch: &[Exchange]) -> Answers<Exchanged> {
        // Each caller has a limit of its own: a short one must not end the calls that leave with it.
        let lane = batch.first().map_or(0, |first| self.steps.lane(first.object()));
        self.parts("exchange", lane, batch, Exchange::longest_lease, |part| self.steps.exchange(part)).await
    }

    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        // Each caller has the limit of its own lease: a short one must not end the calls that leave with it.
        let longest = |part: &[Acquire]| part.iter().map(|acquire| acquire.lease).max();
        let lane = batch.first().map_or(0, |first| self.steps.lane(&first.object));
        self.parts("acquire", lane, batch, longest, |part| self.steps.acquire(part)).await
    }

    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        let shortest = |part: &[Renew]| part.iter().map(|renew| renew.lease).min();
        let lane = batch.first().map_or(0, |first| self.steps.lane(&first.object));
        self.parts("renew", lane, batch, shortest, |part| self.steps.renew(part)).await
    }

    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        let lane = batch.first().map_or(0, |first| self.steps.lane(&first.object));
        self.parts("release", lane, batch, |_| None, |part| self.steps.release(part)).await
    }

    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        let lane = batch.first().map_or(0, |first| self.steps.lane(&first.object));
        self.parts("cancel", lane, batch, |_| None, |part| self.steps.cancel(part)).await
    }

    async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        let lane = batch.first().map_or(0, |first| self.steps.lane(first));
        self.parts("poll", lane, batch, |_| None, |part| self.steps.poll(part)).await
    }

    async fn keep_places(&self, batch: &[Object]) -> Answers<Option<Polled>> {
        let lane = batch.first().map_or(0, |first| self.steps.lane(first));
        self.parts("keep_places", lane, batch, |_| None, |part| self.steps.keep_places(part)).await
    }

    async fn attach(&self, attach: &Attach) -> Result<Option<Attached>> {
        self.one("attach", self.steps.lane(&attach.object), Some(attach.lease), self.steps.attach(attach))
            .await
    }

    async fn inspect(&self, object: &Object) -> Result<Inspection> {
        self.one("inspect", self.steps.lane(object), None, self.steps.inspect(object)).await
    }

    async fn usage(&self, object: &Object) -> Result<Usage> {
        self.one("usage", self.steps.lane(object), None, self.steps.usage(object)).await
    }

    async fn resize(&self, object: &Object, limit: u32) -> Result<()> {
        self.one("resize", self.steps.lane(object), None, self.steps.resize(object, limit)).await
    }

    async fn force(&self, object: &Object, force: Force) -> Result<u32> {
        self.one("force", self.steps.lane(object), None, self.steps.force(object, force)).await
    }

    async fn ping(&self) -> Result<()> {
        self.one("ping", 0, None, self.steps.ping()).await
    }
}

#[async_trait]
impl GroupSteps for Contained<dyn GroupSteps> {
    fn lane(&self, object: &Object) -> usize {
        self.steps.lane(object)
    }

    async fn look(&self, batch: &[Look]) -> Answers<Looked> {
        let lane = batch.first().map_or(0, |first| self.steps.lane(&first.object));
        self.parts("look", lane, batch, |_| None, |part| self.steps.look(part)).await
    }

    async fn split(&self, split: &Split) -> Result<bool> {
        self.one("split", self.steps.lane(&split.object), Some(split.lease), self.steps.split(split)).await
    }
}

#[async_trait]
impl LimitSteps for Contained<dyn LimitSteps> {
    fn lane(&self, object: &Object) -> usize {
        self.steps.lane(object)
    }

    async fn decide(&self, id: RequestId, calls: &[LimitCall]) -> Answers<Limited> {
        let lane = calls.first().map_or(0, |call| self.steps.lane(&call.object));
        self.each("decide", (lane, calls.len()), None, self.steps.decide(id, calls)).await
    }

    async fn refund(&self, batch: &[Refund]) -> Answers<u64> {
        let lane = batch.first().map_or(0, |first| self.steps.lane(&first.object));
        self.parts("refund", lane, batch, |_| None, |part| self.steps.refund(part)).await
    }

    async fn set_quota(&self, object: &Object, quota: ExactQuota) -> Result<()> {
        self.one("set_quota", self.steps.lane(object), None, self.steps.set_quota(object, quota)).await
    }

    async fn reset(&self, object: &Object) -> Result<()> {
        self.one("reset", self.steps.lane(object), None, self.steps.reset(object)).await
    }
}

#[async_trait]
impl WakeSource for Contained<dyn WakeSource> {
    fn watch(&self, object: &Object, waited_for: bool) {
        if catch_unwind(AssertUnwindSafe(|| self.steps.watch(object, waited_for))).is_err() {
            self.containment.note_panic("watch");
        }
    }

    async fn next(&self) -> Result<Vec<Ticket>> {
        match self.containment.catch("next", self.steps.next()).await {
            Some(hints) => hints,
            None => self.containment.check().map(|()| Vec::new()),
        }
    }
}
