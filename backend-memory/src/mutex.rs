//! The mutex: a semaphore of one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::{
    Detached, Inspection, Kind, Mutex, MutexGuard, MutexOptions, Name, OnMismatch, Result, Ticket,
};

use crate::name_handle::{Granted, NameHandle};
use crate::session::Session;

/// A mutex in this process.
#[derive(Debug)]
pub(crate) struct MemoryMutex {
    handle: Arc<NameHandle>,
}

impl MemoryMutex {
    pub(crate) fn open(session: &Arc<Session>, name: Name, options: &MutexOptions) -> Result<Self> {
        let handle = NameHandle::open(session, Kind::Mutex, name, &options.hold, Some(1), OnMismatch::Adopt)?;
        Ok(Self { handle })
    }

    fn guard(&self, granted: Granted) -> MutexGuard {
        MutexGuard::new(self.handle.hold(granted, 1))
    }
}

#[async_trait]
impl Mutex for MemoryMutex {
    fn name(&self) -> &str {
        self.handle.name.as_str()
    }

    async fn lock(&self) -> Result<MutexGuard> {
        match self.handle.acquire("lock", 1).await {
            Ok(granted) => Ok(self.guard(granted)),
            Err(error) => Err(error).map_err(self.handle.context("lock")),
        }
    }

    async fn try_lock(&self) -> Result<Option<MutexGuard>> {
        let granted = self.handle.try_hold("try_lock", 1).map_err(self.handle.context("try_lock"))?;
        Ok(granted.map(|granted| self.guard(granted)))
    }

    async fn lock_for(&self, timeout: Duration) -> Result<Option<MutexGuard>> {
        let granted =
            self.handle.acquire_for("lock_for", 1, timeout).await.map_err(self.handle.context("lock_for"))?;
        Ok(granted.map(|granted| self.guard(granted)))
    }

    async fn attach(&self, detached: &Detached) -> Result<MutexGuard> {
        let (granted, _) = self.handle.attach(detached).map_err(self.handle.context("attach"))?;
        Ok(self.guard(granted))
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.handle.inspect().map_err(self.handle.context("inspect"))
    }

    async fn force_unlock(&self) -> Result<bool> {
        self.handle.force_release("force_unlock", None)
    }

    async fn force_unlock_of(&self, ticket: Ticket) -> Result<bool> {
        self.handle.force_release("force_unlock_of", Some(ticket))
    }
}
