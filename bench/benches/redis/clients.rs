//! The clients of each side, as one process has them; each is created at its first use.

use std::cell::OnceCell;
use std::sync::Arc;

use distributed_lock_redis::RedisLockProvider;
use redis::aio::ConnectionManager;
use rslock::LockManager;
use stanchion_bench::Failure;
use stanchion_core::{Mutex, MutexOptions, Store};

use crate::fixture::RedisFixture;
use crate::peers::{Distkit, DistributedRedis, Rslock};

/// The clients of one process.
pub(crate) struct Clients<'a> {
    fixture: &'a RedisFixture,
    store: OnceCell<Arc<dyn Store>>,
    rslock: OnceCell<LockManager>,
    distributed: OnceCell<Arc<RedisLockProvider>>,
    distkit: OnceCell<ConnectionManager>,
}

impl<'a> Clients<'a> {
    pub(crate) fn new(fixture: &'a RedisFixture) -> Self {
        let (store, rslock) = (OnceCell::new(), OnceCell::new());
        Self { fixture, store, rslock, distributed: OnceCell::new(), distkit: OnceCell::new() }
    }

    pub(crate) fn store(&self) -> Result<&Arc<dyn Store>, Failure> {
        made(&self.store, || self.fixture.store())
    }

    pub(crate) fn provider(&self) -> Result<&Arc<RedisLockProvider>, Failure> {
        let connect =
            || Ok(Arc::new(self.fixture.runtime.block_on(RedisLockProvider::new(self.fixture.url()))?));
        made(&self.distributed, connect)
    }

    pub(crate) fn ours(&self, name: &str) -> Result<Arc<dyn Mutex>, Failure> {
        Ok(self.store()?.mutex(name, MutexOptions::default())?)
    }

    pub(crate) fn rslock(&self, name: &str) -> Result<Rslock, Failure> {
        let manager = made(&self.rslock, || Ok(LockManager::new(vec![self.fixture.url()])))?;
        Ok(Rslock { manager: manager.clone(), name: format!("rslock-{name}") })
    }

    pub(crate) fn distributed(&self, name: &str) -> Result<DistributedRedis, Failure> {
        Ok(DistributedRedis::new(self.provider()?, name))
    }

    pub(crate) fn distkit(&self, name: &str) -> Result<Distkit, Failure> {
        Distkit::new(made(&self.distkit, || self.fixture.manager())?, name)
    }
}

/// Returns the value of the cell, and creates it if there is none.
fn made<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T, Failure>) -> Result<&T, Failure> {
    if let Some(made) = cell.get() {
        return Ok(made);
    }
    let made = make()?;
    Ok(cell.get_or_init(|| made))
}
