//! Mutexes and semaphores of lease stores: one type, since a mutex is a semaphore of one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::acquire::Patience;
use super::handle::Handle;
use super::joint::{Gate, Gates, LaneKey, Passage, Vessel};
use super::steps::{Acquire, Acquired, Answers, Force, Kept, PermitSteps, Release};
use crate::options::check_count;
use crate::{Error, Inspection, Mutex, MutexGuard, Permit, Result, Semaphore, Ticket};

/// The gate of a lane whose acquires and releases exclude each other.
fn gate_of(steps: &Arc<dyn PermitSteps>, gates: &Gates, key: LaneKey) -> Option<Arc<Gate>> {
    let (_, lane) = key;
    steps.excludes(lane).then(|| gates.of(key))
}

/// Acquires that leave together.
#[derive(Debug)]
pub(crate) struct Acquiring(pub(crate) Arc<dyn PermitSteps>, pub(crate) Gates);

#[async_trait]
impl Vessel for Acquiring {
    type Ask = Acquire;
    type Answer = Acquired;

    const BATCH: usize = 128;
    const IN_TURN: bool = false;

    fn lane(&self, ask: &Acquire) -> usize {
        self.0.lane(&ask.object)
    }

    fn gate(&self, key: LaneKey) -> Option<Arc<Gate>> {
        gate_of(&self.0, &self.1, key)
    }

    async fn carry(&self, _: Passage<'_>, asks: &[Acquire]) -> Answers<Acquired> {
        self.0.acquire(asks).await
    }
}

/// Releases that leave together.
#[derive(Debug)]
pub(crate) struct Releasing(pub(crate) Arc<dyn PermitSteps>, pub(crate) Gates);

#[async_trait]
impl Vessel for Releasing {
    type Ask = Release;
    type Answer = Kept;

    const BATCH: usize = 128;
    const IN_TURN: bool = false;

    fn lane(&self, ask: &Release) -> usize {
        self.0.lane(&ask.object)
    }

    fn gate(&self, key: LaneKey) -> Option<Arc<Gate>> {
        gate_of(&self.0, &self.1, key)
    }

    async fn carry(&self, _: Passage<'_>, asks: &[Release]) -> Answers<Kept> {
        self.0.release(asks).await
    }
}

/// A mutex or a semaphore of one caller.
#[derive(Debug)]
pub(crate) struct Permits(pub(crate) Handle);

/// A call that waits for as long as it takes has no definite no.
pub(crate) fn granted<T>(granted: Option<T>) -> Result<T> {
    granted.ok_or_else(Error::lost)
}

#[async_trait]
impl Mutex for Permits {
    fn name(&self) -> &str {
        self.0.object.name.as_str()
    }

    async fn lock(&self) -> Result<MutexGuard> {
        self.0.take("lock", 1, Patience::Forever).await.and_then(granted).map(MutexGuard::new)
    }

    async fn try_lock(&self) -> Result<Option<MutexGuard>> {
        Ok(self.0.take("try_lock", 1, Patience::None).await?.map(MutexGuard::new))
    }

    async fn try_lock_for(&self, limit: Duration) -> Result<Option<MutexGuard>> {
        Ok(self.0.take("try_lock_for", 1, Patience::at_most(limit)).await?.map(MutexGuard::new))
    }

    async fn attach(&self, ticket: Ticket) -> Result<MutexGuard> {
        self.0.take_over(ticket).await.map(|(hold, _)| MutexGuard::new(hold))
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.0.inspect("inspect").await
    }

    async fn force_unlock(&self) -> Result<bool> {
        self.0.force("force_unlock", Force::All).await
    }
}

#[async_trait]
impl Semaphore for Permits {
    fn name(&self) -> &str {
        self.0.object.name.as_str()
    }

    async fn acquire_many(&self, count: u32) -> Result<Permit> {
        self.0.take("acquire_many", count, Patience::Forever).await.and_then(granted).map(Permit::new)
    }

    async fn try_acquire_many(&self, count: u32) -> Result<Option<Permit>> {
        Ok(self.0.take("try_acquire_many", count, Patience::None).await?.map(Permit::new))
    }

    async fn try_acquire_many_for(&self, count: u32, limit: Duration) -> Result<Option<Permit>> {
        Ok(self.0.take("try_acquire_many_for", count, Patience::at_most(limit)).await?.map(Permit::new))
    }

    async fn attach(&self, ticket: Ticket) -> Result<Permit> {
        self.0.take_over(ticket).await.map(|(hold, _)| Permit::new(hold))
    }

    async fn available(&self) -> Result<u32> {
        let inspection = self.0.inspect("available").await?;
        let limit = inspection.limit.unwrap_or_else(|| self.0.known_limit());
        let used = inspection.holders.iter().fold(0_u32, |used, holder| used.saturating_add(holder.weight));
        Ok(limit.saturating_sub(used))
    }

    async fn resize(&self, permits: u32) -> Result<()> {
        let resized = async {
            check_count("permits", permits)?;
            self.0.engine.shared.check_open()?;
            self.0.engine.shared.steps.permits.resize(&self.0.object, permits).await
        };
        resized.await.map_err(|error| self.0.context("resize", error))?;
        self.0.learn(permits);
        Ok(())
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.0.inspect("inspect").await
    }

    async fn force_release(&self, ticket: Ticket) -> Result<bool> {
        self.0.force("force_release", Force::One(ticket)).await
    }
}
