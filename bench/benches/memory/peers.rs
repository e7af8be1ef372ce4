//! The peers in one process, each used as its documentation says.

use std::sync::Arc;

use async_lock::Mutex as AsyncLockMutex;
use governor::DefaultKeyedRateLimiter;
use lockable::LockPool;
use stanchion_bench::Failure;
use stanchion_bench::decider::Decider;
use stanchion_bench::lock::Lock;
use stanchion_core::{Mutex, MutexGuard};
use tokio::sync::Mutex as TokioMutex;

/// This library's mutex, released by a drop, as the peers are.
#[derive(Clone)]
pub(crate) struct Ours(pub(crate) Arc<dyn Mutex>);

impl Lock for Ours {
    type Guard = MutexGuard;

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
    type Guard = tokio::sync::MutexGuard<'static, ()>;

    async fn lock(&self) -> Result<Self::Guard, Failure> {
        Ok(self.0.lock().await)
    }

    async fn release(&self, held: Self::Guard) -> Result<(), Failure> {
        drop(held);
        Ok(())
    }
}

/// `async_lock::Mutex`: no name.
#[derive(Clone, Copy)]
pub(crate) struct AsyncLock(pub(crate) &'static AsyncLockMutex<()>);

impl Lock for AsyncLock {
    type Guard = async_lock::MutexGuard<'static, ()>;

    async fn lock(&self) -> Result<Self::Guard, Failure> {
        Ok(self.0.lock().await)
    }

    async fn release(&self, held: Self::Guard) -> Result<(), Failure> {
        drop(held);
        Ok(())
    }
}

/// A pool of locks by name.
pub(crate) type Pool = LockPool<&'static str>;

/// One lock of a pool.
#[derive(Clone, Copy)]
pub(crate) struct Pooled {
    pub(crate) pool: &'static Pool,
    pub(crate) key: &'static str,
}

impl Lock for Pooled {
    type Guard = <Pool as lockable::Lockable<&'static str, ()>>::Guard<'static>;

    async fn lock(&self) -> Result<Self::Guard, Failure> {
        Ok(self.pool.async_lock(self.key).await)
    }

    async fn release(&self, held: Self::Guard) -> Result<(), Failure> {
        drop(held);
        Ok(())
    }
}

/// `governor`, keyed: a new name is added by itself.
#[derive(Clone)]
pub(crate) struct Governor {
    pub(crate) limiter: Arc<DefaultKeyedRateLimiter<String>>,
    pub(crate) names: Arc<Vec<String>>,
}

impl Decider for Governor {
    async fn allow(&self, name: usize) -> Result<bool, Failure> {
        Ok(self.limiter.check_key(&self.names[name % self.names.len()]).is_ok())
    }
}

/// `leaky_bucket`: one bucket for each name.
#[derive(Clone)]
pub(crate) struct LeakyBucket(pub(crate) Arc<Vec<leaky_bucket::RateLimiter>>);

impl Decider for LeakyBucket {
    async fn allow(&self, name: usize) -> Result<bool, Failure> {
        Ok(self.0[name % self.0.len()].try_acquire(1))
    }
}
