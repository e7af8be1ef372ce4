//! The steps of mutexes, semaphores and wait groups that carry many callers' requests at once.

use std::sync::Arc;

use async_trait::async_trait;

use crate::engine::sending::batching::{BatchContext, BatchedStep, ExclusiveSend, ExclusiveSends, LaneKey};
use crate::steps::{Acquire, Acquired, Answers, GroupSteps, Kept, Look, Looked, PermitSteps, Release};

/// Returns what serialises the acquires and releases of a lane, if they exclude each other at the store.
fn exclusive_of(
    steps: &Arc<dyn PermitSteps>,
    exclusives: &ExclusiveSends,
    key: LaneKey,
) -> Option<Arc<ExclusiveSend>> {
    let (_, lane) = key;
    steps.excludes(lane).then(|| exclusives.of(key))
}

/// Acquires that leave in one request.
#[derive(Debug)]
pub(crate) struct Acquiring(pub(crate) Arc<dyn PermitSteps>, pub(crate) ExclusiveSends);

#[async_trait]
impl BatchedStep for Acquiring {
    type Ask = Acquire;
    type Answer = Acquired;

    const BATCH: usize = 128;
    const IN_TURN: bool = false;

    fn lane(&self, ask: &Acquire) -> usize {
        self.0.lane(&ask.object)
    }

    fn exclusive(&self, key: LaneKey) -> Option<Arc<ExclusiveSend>> {
        exclusive_of(&self.0, &self.1, key)
    }

    async fn send(&self, _: BatchContext<'_>, asks: &[Acquire]) -> Answers<Acquired> {
        self.0.acquire(asks).await
    }
}

/// Releases that leave in one request.
#[derive(Debug)]
pub(crate) struct Releasing(pub(crate) Arc<dyn PermitSteps>, pub(crate) ExclusiveSends);

#[async_trait]
impl BatchedStep for Releasing {
    type Ask = Release;
    type Answer = Kept;

    const BATCH: usize = 128;
    const IN_TURN: bool = false;

    fn lane(&self, ask: &Release) -> usize {
        self.0.lane(&ask.object)
    }

    fn exclusive(&self, key: LaneKey) -> Option<Arc<ExclusiveSend>> {
        exclusive_of(&self.0, &self.1, key)
    }

    async fn send(&self, _: BatchContext<'_>, asks: &[Release]) -> Answers<Kept> {
        self.0.release(asks).await
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
