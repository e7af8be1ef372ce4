//! The peers on Postgres, each used as its documentation says.

use std::sync::Arc;

use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_postgres::PostgresLockProvider;
use sqlx::PgPool;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgAdvisoryLock, PgAdvisoryLockGuard};
use stanchion_bench::Failure;
use stanchion_bench::lock::Lock;

/// Names of the sides.
pub(crate) const SESSION: &str = "stanchion, sessions";
pub(crate) const LEASE: &str = "stanchion, leases";
pub(crate) const DISTRIBUTED_LOCK: &str = "distributed-lock";
pub(crate) const SQLX: &str = "sqlx PgAdvisoryLock";

/// `distributed-lock`, the Postgres part. Each holder and each waiter has a connection of its pool
/// of ten.
#[derive(Clone)]
pub(crate) struct DistributedPostgres {
    provider: Arc<PostgresLockProvider>,
    name: String,
}

impl DistributedPostgres {
    pub(crate) fn new(provider: &Arc<PostgresLockProvider>, name: &str) -> Self {
        Self { provider: Arc::clone(provider), name: name.to_owned() }
    }
}

impl Lock for DistributedPostgres {
    type Guard = <<PostgresLockProvider as LockProvider>::Lock as DistributedLock>::Handle;

    async fn lock(&self) -> Result<Self::Guard, Failure> {
        Ok(self.provider.create_lock(&self.name).acquire(None).await?)
    }

    async fn release(&self, held: Self::Guard) -> Result<(), Failure> {
        Ok(held.release().await?)
    }
}

/// The advisory lock of `sqlx`. Each holder and each waiter has a connection of the pool.
#[derive(Clone)]
pub(crate) struct Sqlx {
    pool: PgPool,
    lock: PgAdvisoryLock,
}

impl Sqlx {
    pub(crate) fn new(pool: &PgPool, name: &str) -> Self {
        Self { pool: pool.clone(), lock: PgAdvisoryLock::new(name) }
    }
}

impl Lock for Sqlx {
    type Guard = PgAdvisoryLockGuard<PoolConnection<sqlx::Postgres>>;

    async fn lock(&self) -> Result<Self::Guard, Failure> {
        Ok(self.lock.acquire(self.pool.acquire().await?).await?)
    }

    async fn release(&self, held: Self::Guard) -> Result<(), Failure> {
        held.release_now().await?;
        Ok(())
    }
}
