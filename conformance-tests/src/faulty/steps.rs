//! Steps with faults.

use std::sync::Arc;

use async_trait::async_trait;
use stanchion_core::limiter::ExactQuota;
use stanchion_core::spi::{
    Acquire, Acquired, Answers, Attach, Attached, BloomCall, BloomSteps, Cancel, ChunkRead, Exchange,
    Exchanged, Force, GroupSteps, Kept, Known, LimitCall, LimitSteps, Limited, List, ListPart, ListSteps,
    Look, Looked, Merge, Merged, Object, PermitSteps, Polled, Probed, Refund, Release, Renew, RequestId,
    Split, Surveyed, Usage, refused,
};
use stanchion_core::{Inspection, Result};

use super::{Faults, Step};

/// The steps `S` with [`Faults`].
#[derive(Debug)]
pub struct FaultySteps<S: ?Sized> {
    inner: Arc<S>,
    faults: Arc<Faults>,
}

impl<S: ?Sized> FaultySteps<S> {
    /// Wraps a store's own steps.
    #[must_use]
    pub fn new(inner: Arc<S>, faults: &Arc<Faults>) -> Self {
        Self { inner, faults: Arc::clone(faults) }
    }
}

/// Sends a request of several entries; its leases limit its time.
macro_rules! batch {
    ($self:ident, $step:ident, $batch:ident, [$($lease:ident)?], |$inner:ident, $sent:ident| $run:expr) => {
        batch!($self, $step, $batch, [$($lease)?], true, |$inner, $sent| $run)
    };
    ($self:ident, $step:ident, $batch:ident, [$($lease:ident)?], $again:expr, |$inner:ident, $sent:ident| $run:expr) => {{
        let limit = batch!(@limit $self $batch $($lease)?);
        let (inner, asked) = (Arc::clone(&$self.inner), $batch.to_vec());
        let send = move || {
            let ($inner, $sent) = (Arc::clone(&inner), asked.clone());
            Box::pin(async move { $run.await }) as super::Sending<_>
        };
        let answers = $self.faults.carry(Step::$step, limit, $again, send).await;
        answers.unwrap_or_else(|error| refused($batch.len(), &error))
    }};
    (@limit $self:ident $batch:ident) => { $self.faults.limit };
    (@limit $self:ident $batch:ident $lease:ident) => {
        $self.faults.limit_of($batch.iter().map(|ask| ask.$lease))
    };
}

/// Sends a request of one entry.
macro_rules! single {
    ($self:ident, $step:ident, $limit:expr, [$($argument:ident)*], |$inner:ident| $run:expr) => {{
        let limit = $limit;
        let inner = Arc::clone(&$self.inner);
        let arguments = ($($argument.clone(),)*);
        let send = move || {
            let $inner = Arc::clone(&inner);
            let ($($argument,)*) = arguments.clone();
            Box::pin(async move { $run.await }) as super::Sending<_>
        };
        $self.faults.carry(Step::$step, limit, true, send).await?
    }};
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: PermitSteps + ?Sized + 'static> PermitSteps for FaultySteps<S> {
    fn lane(&self, object: &Object) -> usize {
        self.inner.lane(object)
    }

    fn exchange_lane(&self, object: &Object) -> Option<usize> {
        self.inner.exchange_lane(object)
    }

    async fn exchange(&self, batch: &[Exchange]) -> Answers<Exchanged> {
        let releases = || {
            batch.iter().filter_map(|entry| match entry {
                Exchange::Release(release) => Some(release),
                Exchange::Acquire(_) => None,
            })
        };
        let again = releases().all(|release| release.call.is_some());
        let step = if releases().next().is_some() { Step::Release } else { Step::Acquire };
        let limit = match Exchange::longest_lease(batch) {
            Some(lease) => self.faults.limit_of([lease].into_iter()),
            None => self.faults.limit,
        };
        let (inner, asked) = (Arc::clone(&self.inner), batch.to_vec());
        let send = move || {
            let (inner, asked) = (Arc::clone(&inner), asked.clone());
            Box::pin(async move { inner.exchange(&asked).await }) as super::Sending<_>
        };
        let answers = self.faults.carry(step, limit, again, send).await;
        answers.unwrap_or_else(|error| refused(batch.len(), &error))
    }

    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        batch!(self, Acquire, batch, [lease], |inner, asked| inner.acquire(&asked))
    }

    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        batch!(self, Renew, batch, [lease], |inner, asked| inner.renew(&asked))
    }

    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        let again = batch.iter().all(|release| release.call.is_some());
        batch!(self, Release, batch, [], again, |inner, asked| inner.release(&asked))
    }

    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        batch!(self, Cancel, batch, [], |inner, asked| inner.cancel(&asked))
    }

    async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        batch!(self, Poll, batch, [], |inner, asked| inner.poll(&asked))
    }

    async fn keep_places(&self, batch: &[Object]) -> Answers<Option<Polled>> {
        batch!(self, Poll, batch, [], |inner, asked| inner.keep_places(&asked))
    }

    async fn attach(&self, attach: &Attach) -> Result<Option<Attached>> {
        let limit = self.faults.limit_of([attach.lease].into_iter());
        single!(self, Attach, limit, [attach], |inner| inner.attach(&attach))
    }

    async fn inspect(&self, object: &Object) -> Result<Inspection> {
        single!(self, Other, self.faults.limit, [object], |inner| inner.inspect(&object))
    }

    async fn usage(&self, object: &Object) -> Result<Usage> {
        single!(self, Other, self.faults.limit, [object], |inner| inner.usage(&object))
    }

    async fn resize(&self, object: &Object, limit: u32) -> Result<()> {
        single!(self, Other, self.faults.limit, [object], |inner| inner.resize(&object, limit))
    }

    async fn force(&self, object: &Object, force: Force) -> Result<u32> {
        single!(self, Other, self.faults.limit, [object], |inner| inner.force(&object, force))
    }

    async fn ping(&self) -> Result<()> {
        self.inner.ping().await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: GroupSteps + ?Sized + 'static> GroupSteps for FaultySteps<S> {
    fn lane(&self, object: &Object) -> usize {
        self.inner.lane(object)
    }

    async fn look(&self, batch: &[Look]) -> Answers<Looked> {
        batch!(self, Look, batch, [], |inner, asked| inner.look(&asked))
    }

    async fn split(&self, split: &Split) -> Result<bool> {
        let limit = self.faults.limit_of([split.lease].into_iter());
        single!(self, Split, limit, [split], |inner| inner.split(&split))
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: LimitSteps + ?Sized + 'static> LimitSteps for FaultySteps<S> {
    fn lane(&self, object: &Object) -> usize {
        self.inner.lane(object)
    }

    async fn decide(&self, request: RequestId, calls: &[LimitCall]) -> Answers<Limited> {
        batch!(self, Decide, calls, [], |inner, asked| inner.decide(request, &asked))
    }

    async fn refund(&self, batch: &[Refund]) -> Answers<u64> {
        batch!(self, Refund, batch, [], |inner, asked| inner.refund(&asked))
    }

    async fn set_quota(&self, object: &Object, quota: ExactQuota) -> Result<()> {
        single!(self, Other, self.faults.limit, [object], |inner| inner.set_quota(&object, quota))
    }

    async fn reset(&self, object: &Object) -> Result<()> {
        single!(self, Other, self.faults.limit, [object], |inner| inner.reset(&object))
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: BloomSteps + ?Sized + 'static> BloomSteps for FaultySteps<S> {
    fn lane(&self, object: &Object) -> usize {
        self.inner.lane(object)
    }

    fn most_positions(&self) -> usize {
        self.inner.most_positions()
    }

    async fn probe(&self, request: RequestId, calls: &[BloomCall]) -> Answers<Probed> {
        batch!(self, Probe, calls, [], |inner, asked| inner.probe(request, &asked))
    }

    async fn merge(&self, merge: &Merge) -> Result<Merged> {
        single!(self, Merge, self.faults.limit, [merge], |inner| inner.merge(&merge))
    }

    async fn clear(&self, object: &Object) -> Result<Known> {
        single!(self, Other, self.faults.limit, [object], |inner| inner.clear(&object))
    }

    async fn survey(&self, object: &Object, known: Known) -> Result<Surveyed> {
        single!(self, Other, self.faults.limit, [object], |inner| inner.survey(&object, known))
    }

    async fn read(&self, object: &Object, known: Known, chunk: u64) -> Result<ChunkRead> {
        single!(self, Other, self.faults.limit, [object], |inner| inner.read(&object, known, chunk))
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: ListSteps + ?Sized + 'static> ListSteps for FaultySteps<S> {
    fn lane(&self, list: &List) -> usize {
        self.inner.lane(list)
    }

    async fn list(&self, list: &List) -> Result<ListPart> {
        single!(self, Other, self.faults.limit, [list], |inner| inner.list(&list))
    }
}
