//! The steps of mutexes, semaphores and wait groups that carry many callers' requests at once.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::Result;
use crate::engine::sending::batching::{BatchContext, BatchedStep, Batcher};
use crate::spi::{
    Acquire, Acquired, Answers, Exchange, Exchanged, GroupSteps, Kept, Look, Looked, PermitSteps, Release,
};

/// Releases and acquires that leave in one request.
#[derive(Debug)]
pub(crate) struct Exchanging(pub(crate) Arc<dyn PermitSteps>);

#[async_trait]
impl BatchedStep for Exchanging {
    type Ask = Exchange;
    type Answer = Exchanged;

    const BATCH: usize = 128;
    const IN_TURN: bool = false;

    /// Three numbers for each lane of the store: its exchanges, and what leaves apart.
    fn lane(&self, ask: &Exchange) -> usize {
        match (self.0.exchange_lane(ask.object()), ask) {
            (Some(lane), _) => 3 * lane,
            (None, Exchange::Acquire(acquire)) => 3 * self.0.lane(&acquire.object) + 1,
            (None, Exchange::Release(release)) => 3 * self.0.lane(&release.object) + 2,
        }
    }

    async fn send(&self, _: BatchContext<'_>, asks: &[Exchange]) -> Answers<Exchanged> {
        self.0.exchange(asks).await
    }
}

impl Batcher<Exchanging> {
    /// Requests permits, with what other callers ask for.
    ///
    /// # Errors
    /// As [`Batcher::ask`].
    pub(crate) async fn acquire(&self, acquire: Acquire, end: Instant) -> Result<Acquired> {
        self.ask(Exchange::Acquire(acquire), end).await?.acquired()
    }

    /// Ends a hold, with what other callers ask for.
    ///
    /// # Errors
    /// As [`Batcher::ask`].
    pub(crate) async fn release(&self, release: Release, end: Instant) -> Result<Kept> {
        self.ask(Exchange::Release(release), end).await?.kept()
    }
}

/// Looks that leave in one request.
#[derive(Debug)]
pub(crate) struct Looking(pub(crate) Arc<dyn GroupSteps>);

#[async_trait]
impl BatchedStep for Looking {
    type Ask = Look;
    type Answer = Looked;

    const BATCH: usize = 128;
    const IN_TURN: bool = false;

    fn lane(&self, ask: &Look) -> usize {
        self.0.lane(&ask.object)
    }

    async fn send(&self, _: BatchContext<'_>, asks: &[Look]) -> Answers<Looked> {
        self.0.look(asks).await
    }
}
