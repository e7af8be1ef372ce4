//! What each side connects with: as one process has it, and not before it is used.

use std::cell::OnceCell;
use std::sync::Arc;

use distributed_lock_redis::RedisLockProvider;
use redis::aio::ConnectionManager;
use rslock::LockManager;
use stanchion_bench::Failure;
use stanchion_core::{Mutex, MutexOptions, Store};

use crate::bed::Bed;
use crate::peers::{Distkit, DistributedRedis, Rslock};

/// The clients of one process.
pub(crate) struct Clients<'a> {
    bed: &'a Bed,
    store: OnceCell<Arc<dyn Store>>,
    rslock: OnceCell<LockManager>,
    distributed: OnceCell<Arc<RedisLockProvider>>,
    distkit: OnceCell<ConnectionManager>,
}

impl<'a> Clients<'a> {
    pub(crate) fn new(bed: &'a Bed) -> Self {
        let (store, rslock) = (OnceCell::new(), OnceCell::new());
        Self { bed, store, rslock, distributed: OnceCell::new(), distkit: OnceCell::new() }
    }

    pub(crate) fn store(&self) -> Result<&Arc<dyn Store>, Failure> {
        made(&self.store, || self.bed.store())
    }

    pub(crate) fn provider(&self) -> Result<&Arc<RedisLockProvider>, Failure> {
        let connect = || Ok(Arc::new(self.bed.runtime.block_on(RedisLockProvider::new(self.bed.url()))?));
        made(&self.distributed, connect)
    }

    pub(crate) fn ours(&self, name: &str) -> Result<Arc<dyn Mutex>, Failure> {
        Ok(self.store()?.mutex(name, MutexOptions::default())?)
    }

    pub(crate) fn rslock(&self, name: &str) -> Result<Rslock, Failure> {
        let manager = made(&self.rslock, || Ok(LockManager::new(vec![self.bed.url()])))?;
        Ok(Rslock { manager: manager.clone(), name: format!("rslock-{name}") })
    }

    pub(crate) fn distributed(&self, name: &str) -> Result<DistributedRedis, Failure> {
        Ok(DistributedRedis::new(self.provider()?, name))
    }

    pub(crate) fn distkit(&self, name: &str) -> Result<Distkit, Failure> {
        Distkit::new(made(&self.distkit, || self.bed.manager())?, name)
    }
}

/// What is in the cell, made if there is nothing yet.
fn made<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T, Failure>) -> Result<&T, Failure> {
    if let Some(made) = cell.get() {
        return Ok(made);
    }
    let made = make()?;
    Ok(cell.get_or_init(|| made))
}
