//! The peers on Redis, each used as its documentation says. Their tasks share a connection where
//! possible.

use std::sync::Arc;
use std::time::Duration;

use distkit::DistkitRedisKey;
use distkit::lock::{LockOptions, Mutex as DistkitMutex, MutexGuard as DistkitGuard};
use distributed_lock_core::traits::{
    DistributedLock, DistributedSemaphore, LockHandle, LockProvider, SemaphoreProvider,
};
use distributed_lock_redis::{
    RedisDistributedLock, RedisDistributedSemaphore, RedisLockHandle, RedisLockProvider, RedisSemaphoreHandle,
};
use redis::aio::ConnectionManager;
use rslock::{LockGuard, LockManager};
use stanchion_bench::Failure;
use stanchion_bench::decider::Decider;
use stanchion_bench::lock::Lock;
use trypema::redis::{RedisKey, RedisRateLimiterProvider};
use trypema::{RateLimit, RateLimitDecision};

/// Names of the sides.
pub(crate) const OURS: &str = "stanchion";
pub(crate) const RSLOCK: &str = "rslock";
pub(crate) const DISTRIBUTED_LOCK: &str = "distributed-lock";
pub(crate) const DISTKIT: &str = "distkit";
pub(crate) const TRYPEMA: &str = "trypema";

/// Commands that each peer sends; the rest happens inside scripts.
pub(crate) const WIRE: &[&str] = &["set", "eval", "evalsha", "script|load", "ping"];
/// Commands that this library sends.
pub(crate) const OUR_WIRE: &[&str] =
    &["eval", "evalsha", "script|load", "blpop", "ping", "hello", "client|setinfo"];

/// `rslock`: a quorum of one server. It does not renew.
#[derive(Clone)]
pub(crate) struct Rslock {
    pub(crate) manager: LockManager,
    pub(crate) name: String,
}

impl Lock for Rslock {
    type Guard = LockGuard;

    async fn lock(&self) -> Result<LockGuard, Failure> {
        Ok(self.manager.acquire(self.name.as_str(), Duration::from_secs(30)).await?)
    }

    async fn release(&self, held: LockGuard) -> Result<(), Failure> {
        held.release().await;
        Ok(())
    }
}

/// `distributed-lock`, the Redis part.
#[derive(Clone)]
pub(crate) struct DistributedRedis {
    provider: Arc<RedisLockProvider>,
    name: String,
}

impl DistributedRedis {
    pub(crate) fn new(provider: &Arc<RedisLockProvider>, name: &str) -> Self {
        Self { provider: Arc::clone(provider), name: name.to_owned() }
    }

    fn open(&self) -> RedisDistributedLock {
        self.provider.create_lock(&self.name)
    }
}

impl Lock for DistributedRedis {
    type Guard = RedisLockHandle;

    async fn lock(&self) -> Result<RedisLockHandle, Failure> {
        Ok(self.open().acquire(None).await?)
    }

    async fn release(&self, held: RedisLockHandle) -> Result<(), Failure> {
        Ok(held.release().await?)
    }
}

/// A permit of `distributed-lock`'s semaphore.
#[derive(Clone)]
pub(crate) struct DistributedPermit(Arc<RedisDistributedSemaphore>);

impl DistributedPermit {
    pub(crate) fn new(provider: &RedisLockProvider, name: &str, permits: u32) -> Self {
        Self(Arc::new(provider.create_semaphore(name, permits)))
    }
}

impl Lock for DistributedPermit {
    type Guard = RedisSemaphoreHandle;

    async fn lock(&self) -> Result<RedisSemaphoreHandle, Failure> {
        Ok(self.0.acquire(None).await?)
    }

    async fn release(&self, held: RedisSemaphoreHandle) -> Result<(), Failure> {
        Ok(held.release().await?)
    }
}

/// `distkit`: one mutex is one owner, so each task has its own.
pub(crate) struct Distkit {
    manager: ConnectionManager,
    name: String,
    mutex: Arc<DistkitMutex>,
}

impl Distkit {
    pub(crate) fn new(manager: &ConnectionManager, name: &str) -> Result<Self, Failure> {
        let key = DistkitRedisKey::try_from(name.to_owned())?;
        let mutex = DistkitMutex::new(LockOptions::new(key, manager.clone()));
        Ok(Self { manager: manager.clone(), name: name.to_owned(), mutex })
    }
}

impl Clone for Distkit {
    fn clone(&self) -> Self {
        let key = DistkitRedisKey::new_or_panic(self.name.clone());
        let mutex = DistkitMutex::new(LockOptions::new(key, self.manager.clone()));
        Self { manager: self.manager.clone(), name: self.name.clone(), mutex }
    }
}

impl Lock for Distkit {
    type Guard = DistkitGuard;

    async fn lock(&self) -> Result<DistkitGuard, Failure> {
        Ok(self.mutex.lock().await?)
    }

    async fn release(&self, held: DistkitGuard) -> Result<(), Failure> {
        held.release().await?;
        Ok(())
    }
}

/// `trypema`, the provider that asks Redis each time.
#[derive(Clone)]
pub(crate) struct Trypema {
    pub(crate) provider: Arc<RedisRateLimiterProvider>,
    pub(crate) keys: Arc<Vec<RedisKey>>,
    pub(crate) rate: RateLimit,
}

impl Decider for Trypema {
    async fn allow(&self, name: usize) -> Result<bool, Failure> {
        let key = &self.keys[name % self.keys.len()];
        let decision = self.provider.absolute().inc(key, &self.rate, 1).await?;
        Ok(matches!(decision, RateLimitDecision::Allowed))
    }
}
