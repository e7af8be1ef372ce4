//! The semaphore.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::{
    Detached, Inspection, Kind, Name, Permit, Result, Semaphore, SemaphoreOptions, Ticket, check_count,
};

use crate::name_handle::{Granted, NameHandle};
use crate::session::Session;

/// A semaphore in this process.
#[derive(Debug)]
pub(crate) struct MemorySemaphore {
    handle: Arc<NameHandle>,
}

impl MemorySemaphore {
    pub(crate) fn open(session: &Arc<Session>, name: Name, options: &SemaphoreOptions) -> Result<Self> {
        let SemaphoreOptions { permits, on_mismatch, hold, .. } = options;
        let handle = NameHandle::open(session, Kind::Semaphore, name, hold, Some(*permits), *on_mismatch)?;
        Ok(Self { handle })
    }

    async fn take(&self, operation: &'static str, count: u32) -> Result<Permit> {
        let taken = match check_count("permits", count) {
            Ok(()) => self.handle.acquire(operation, count).await,
            Err(error) => Err(error),
        };
        match taken {
            Ok(granted) => Ok(self.permit(granted, count)),
            Err(error) => Err(error).map_err(self.handle.context(operation)),
        }
    }

    fn try_take(&self, operation: &'static str, count: u32) -> Result<Option<Permit>> {
        let taken = check_count("permits", count).and_then(|()| self.handle.try_hold(operation, count));
        let granted = taken.map_err(self.handle.context(operation))?;
        Ok(granted.map(|granted| self.permit(granted, count)))
    }

    fn permit(&self, granted: Granted, count: u32) -> Permit {
        Permit::new(self.handle.hold(granted, count))
    }

    async fn take_for(
        &self,
        operation: &'static str,
        count: u32,
        timeout: Duration,
    ) -> Result<Option<Permit>> {
        let taken = match check_count("permits", count) {
            Ok(()) => self.handle.acquire_for(operation, count, timeout).await,
            Err(error) => Err(error),
        };
        let granted = taken.map_err(self.handle.context(operation))?;
        Ok(granted.map(|granted| self.permit(granted, count)))
    }
}

#[async_trait]
impl Semaphore for MemorySemaphore {
    fn name(&self) -> &str {
        self.handle.name.as_str()
    }

    async fn acquire(&self) -> Result<Permit> {
        self.take("acquire", 1).await
    }

    async fn acquire_many(&self, count: u32) -> Result<Permit> {
        self.take("acquire_many", count).await
    }

    async fn try_acquire(&self) -> Result<Option<Permit>> {
        self.try_take("try_acquire", 1)
    }

    async fn try_acquire_many(&self, count: u32) -> Result<Option<Permit>> {
        self.try_take("try_acquire_many", count)
    }

    async fn acquire_for(&self, timeout: Duration) -> Result<Option<Permit>> {
        self.take_for("acquire_for", 1, timeout).await
    }

    async fn acquire_many_for(&self, count: u32, timeout: Duration) -> Result<Option<Permit>> {
        self.take_for("acquire_many_for", count, timeout).await
    }

    async fn attach(&self, detached: &Detached) -> Result<Permit> {
        let (granted, weight) = self.handle.attach(detached).map_err(self.handle.context("attach"))?;
        Ok(self.permit(granted, weight))
    }

    async fn available(&self) -> Result<u32> {
        let available = self.handle.available().map_err(self.handle.context("available"))?;
        Ok(u32::try_from(available).unwrap_or(u32::MAX))
    }

    async fn resize(&self, permits: u32) -> Result<()> {
        let resized = check_count("permits", permits).and_then(|()| self.handle.resize(permits));
        resized.map_err(self.handle.context("resize"))
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.handle.inspect().map_err(self.handle.context("inspect"))
    }

    async fn force_release(&self, ticket: Ticket) -> Result<bool> {
        self.handle.force_release("force_release", Some(ticket))
    }
}
