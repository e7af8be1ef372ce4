//! Dispatches to the steps of mutexes and to the steps of all other kinds.

use std::sync::Arc;

use async_trait::async_trait;
use stanchion_core::spi::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Force, Kept, Object, PermitSteps, Polled, Release,
    Renew, Usage,
};
use stanchion_core::{Inspection, Kind, Result};

/// The first lane of mutexes.
const MUTEXES: usize = 1;

/// Sends entries of mutexes to one set of steps, on lanes of their own, and all other entries to another set.
#[derive(Clone, Debug)]
pub(crate) struct Dispatch {
    pub(crate) mutexes: Arc<dyn PermitSteps>,
    pub(crate) rest: Arc<dyn PermitSteps>,
}

impl Dispatch {
    fn of(&self, object: &Object) -> &Arc<dyn PermitSteps> {
        if object.kind == Kind::Mutex { &self.mutexes } else { &self.rest }
    }
}

/// A batch that is split into two, with the half of each entry.
pub(crate) struct Halves<T> {
    pub(crate) ones: Vec<T>,
    pub(crate) rest: Vec<T>,
    is_one: Vec<bool>,
}

impl<T: Clone> Halves<T> {
    pub(crate) fn of(batch: &[T], is_one: impl Fn(&T) -> bool) -> Self {
        let is_one: Vec<bool> = batch.iter().map(is_one).collect();
        let half = |wanted| {
            let entries = batch.iter().zip(&is_one).filter(move |(_, is)| **is == wanted);
            entries.map(|(entry, _)| entry.clone()).collect()
        };
        Self { ones: half(true), rest: half(false), is_one }
    }

    /// Merges the answers of both halves into the order of the batch.
    pub(crate) fn merged<A>(self, ones: Answers<A>, rest: Answers<A>) -> Answers<A> {
        let (mut ones, mut rest) = (ones.into_iter(), rest.into_iter());
        self.is_one.into_iter().filter_map(|is_one| if is_one { ones.next() } else { rest.next() }).collect()
    }
}

/// Sends both halves concurrently, so that neither waits for the other. A batch with one half only is sent as it is.
macro_rules! split {
    ($self:ident, $batch:ident, $step:ident, $kind:expr) => {{
        let halves = Halves::of($batch, |entry| $kind(entry) == Kind::Mutex);
        if halves.rest.is_empty() {
            return $self.mutexes.$step($batch).await;
        }
        if halves.ones.is_empty() {
            return $self.rest.$step($batch).await;
        }
        let (mutexes, rest) = tokio::join!($self.mutexes.$step(&halves.ones), $self.rest.$step(&halves.rest));
        halves.merged(mutexes, rest)
    }};
}

#[async_trait]
impl PermitSteps for Dispatch {
    fn lane(&self, object: &Object) -> usize {
        if object.kind == Kind::Mutex { MUTEXES + self.mutexes.lane(object) } else { 0 }
    }

    fn exchange_lane(&self, object: &Object) -> Option<usize> {
        self.of(object).exchange_lane(object)
    }

    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        split!(self, batch, acquire, (|entry: &Acquire| entry.object.kind))
    }

    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        split!(self, batch, renew, (|entry: &Renew| entry.object.kind))
    }

    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        split!(self, batch, release, (|entry: &Release| entry.object.kind))
    }

    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        split!(self, batch, cancel, (|entry: &Cancel| entry.object.kind))
    }

    async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        split!(self, batch, poll, (|entry: &Object| entry.kind))
    }

    async fn keep_places(&self, batch: &[Object]) -> Answers<Option<Polled>> {
        split!(self, batch, keep_places, (|entry: &Object| entry.kind))
    }

    async fn attach(&self, attach: &Attach) -> Result<Option<Attached>> {
        self.of(&attach.object).attach(attach).await
    }

    async fn inspect(&self, object: &Object) -> Result<Inspection> {
        self.of(object).inspect(object).await
    }

    async fn usage(&self, object: &Object) -> Result<Usage> {
        self.of(object).usage(object).await
    }

    async fn resize(&self, object: &Object, limit: u32) -> Result<()> {
        self.of(object).resize(object, limit).await
    }

    async fn force(&self, object: &Object, force: Force) -> Result<u32> {
        self.of(object).force(object, force).await
    }

    async fn ping(&self) -> Result<()> {
        self.rest.ping().await
    }
}

#[cfg(test)]
mod tests;
