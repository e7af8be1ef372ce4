//! Mutexes and semaphores of lease stores: one type, since a mutex is a semaphore with one permit.

use std::time::Duration;

use async_trait::async_trait;

use crate::api::options::check_count;
use crate::engine::retrying::WaitLimit;
use crate::engine::taking::acquire::granted;
use crate::engine::taking::handle::ObjectHandle;
use crate::spi::{Force, Resize};
use crate::{Detached, Inspection, Mutex, MutexGuard, Permit, Result, Semaphore, Ticket};

/// A mutex or a semaphore as one caller uses it.
#[derive(Debug)]
pub(crate) struct Permits(pub(crate) ObjectHandle);

#[async_trait]
impl Mutex for Permits {
    fn name(&self) -> &str {
        self.0.object.name.as_str()
    }

    async fn lock(&self) -> Result<MutexGuard> {
        self.0.take("lock", 1, WaitLimit::Forever).await.and_then(granted).map(MutexGuard::new)
    }

    async fn try_lock(&self) -> Result<Option<MutexGuard>> {
        Ok(self.0.take("try_lock", 1, WaitLimit::None).await?.map(MutexGuard::new))
    }

    async fn lock_for(&self, timeout: Duration) -> Result<Option<MutexGuard>> {
        Ok(self.0.take("lock_for", 1, WaitLimit::at_most(timeout)).await?.map(MutexGuard::new))
    }

    async fn attach(&self, detached: &Detached) -> Result<MutexGuard> {
        self.0.take_over(detached).await.map(|(hold, _)| MutexGuard::new(hold))
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.0.inspect().await
    }

    async fn force_unlock(&self) -> Result<bool> {
        self.0.force("force_unlock", Force::All).await
    }

    async fn force_unlock_of(&self, ticket: Ticket) -> Result<bool> {
        self.0.force("force_unlock_of", Force::One(ticket)).await
    }
}

#[async_trait]
impl Semaphore for Permits {
    fn name(&self) -> &str {
        self.0.object.name.as_str()
    }

    async fn acquire(&self) -> Result<Permit> {
        self.0.take("acquire", 1, WaitLimit::Forever).await.and_then(granted).map(Permit::new)
    }

    async fn acquire_many(&self, count: u32) -> Result<Permit> {
        self.0.take("acquire_many", count, WaitLimit::Forever).await.and_then(granted).map(Permit::new)
    }

    async fn try_acquire(&self) -> Result<Option<Permit>> {
        Ok(self.0.take("try_acquire", 1, WaitLimit::None).await?.map(Permit::new))
    }

    async fn try_acquire_many(&self, count: u32) -> Result<Option<Permit>> {
        Ok(self.0.take("try_acquire_many", count, WaitLimit::None).await?.map(Permit::new))
    }

    async fn acquire_for(&self, timeout: Duration) -> Result<Option<Permit>> {
        Ok(self.0.take("acquire_for", 1, WaitLimit::at_most(timeout)).await?.map(Permit::new))
    }

    async fn acquire_many_for(&self, count: u32, timeout: Duration) -> Result<Option<Permit>> {
        Ok(self.0.take("acquire_many_for", count, WaitLimit::at_most(timeout)).await?.map(Permit::new))
    }

    async fn attach(&self, detached: &Detached) -> Result<Permit> {
        self.0.take_over(detached).await.map(|(hold, _)| Permit::new(hold))
    }

    async fn available(&self) -> Result<u32> {
        let usage = self.0.usage("available").await?;
        let limit = usage.limit.unwrap_or_else(|| self.0.limit.value());
        let used = u32::try_from(usage.weight).unwrap_or(u32::MAX);
        Ok(limit.saturating_sub(used))
    }

    async fn resize(&self, permits: u32) -> Result<()> {
        check_count("permits", permits).map_err(|error| self.0.context("resize", error))?;
        self.0.ask("resize", Resize { object: self.0.object.clone(), limit: permits }).await?;
        self.0.limit.learn(permits);
        Ok(())
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.0.inspect().await
    }

    async fn force_release(&self, ticket: Ticket) -> Result<bool> {
        self.0.force("force_release", Force::One(ticket)).await
    }
}
