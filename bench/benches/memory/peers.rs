//! The peers in one process, each as its documentation says.

use std::sync::Arc;

use async_lock::Mutex as AsyncLockMutex;
use governor::DefaultKeyedRateLimiter;
use lockable::LockPool;
use stanchion_bench::Failure;
use stanchion_bench::gate::Gate;
use stanchion_bench::lock::Lock;
use stanchion_core::{Mutex, MutexGuard};
use tokio::sync::Mutex as TokioMutex;

/// Ours, given back by a drop, as the peers are.
#[derive(Clone)]
pub(crate) struct Ours(pub(crate) Arc<dyn Mutex>);

impl Lock for Ours {
    type Held = MutexGuard;

    async fn lock(&self) -> Result<MutexGuard, Failure> {
        Ok(Mutex::lock(&*self.0).await?)
    }

    async fn release(&self, held: MutexGuard) -> Result<(), Failure> {
        drop(held);
        Ok(())
    }
}

/// `tokio::sync::Mutex`: no name.
#[derive(Clone, Copy)]
pub(crate) struct Tokio(pub(crate) &'static TokioMutex<()>);

impl Lock for Tokio {
    type Held = tokio::sync::MutexGuard<'static, ()>;

    async fn lock(&self) -> Result<Self::Held, Failure> {
        Ok(self.0.lock().await)
    }

    async fn release(&self, held: Self::Held) -> Result<(), Failure> {
        drop(held);
        Ok(())
    }
}

/// `async_lock::Mutex`: no name.
#[derive(Clone, Copy)]
pub(crate) struct AsyncLock(pub(crate) &'static AsyncLockMutex<()>);

impl Lock for AsyncLock {
    type Held = async_lock::MutexGuard<'static, ()>;

    async fn lock(&self) -> Result<Self::Held, Failure> {
        Ok(self.0.lock().await)
    }

    async fn release(&self, held: Self::Held) -> Result<(), Failure> {
        drop(held);
        Ok(())
    }
}

/// A pool of locks by name.
pub(crate) type Pool = LockPool<&'static str>;

/// One of a pool.
#[derive(Clone, Copy)]
pub(crate) struct Pooled {
    pub(crate) pool: &'static Pool,
    pub(crate) key: &'static str,
}

impl Lock for Pooled {
    type Held = <Pool as lockable::Lockable<&'static str, ()>>::Guard<'static>;

    async fn lock(&self) -> Result<Self::Held, Failure> {
        Ok(self.pool.async_lock(self.key).await)
    }

    async fn release(&self, held: Self::Held) -> Result<(), Failure> {
        drop(held);
        Ok(())
    }
}

/// `governor`, keyed: a name that is not there yet comes in by itself.
#[derive(Clone)]
pub(crate) struct Governor {
    pub(crate) limiter: Arc<DefaultKeyedRateLimiter<String>>,
    pub(crate) names: Arc<Vec<String>>,
}

impl Gate for Governor {
    async fn allow(&self, name: usize) -> Result<bool, Failure> {
        Ok(self.limiter.check_key(&self.names[name % self.names.len()]).is_ok())
    }
}

/// `leaky_bucket`: one for each name.
#[derive(Clone)]
pub(crate) struct LeakyBucket(pub(crate) Arc<Vec<leaky_bucket::RateLimiter>>);

impl Gate for LeakyBucket {
    async fn allow(&self, name: usize) -> Result<bool, Failure> {
        Ok(self.0[name % self.0.len()].try_acquire(1))
    }
}
