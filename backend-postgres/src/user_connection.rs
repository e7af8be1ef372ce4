//! A connection that is borrowed from the user's pool.

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPool;
use sqlx::{PgConnection, Postgres};
use stanchion_core::Result;
use tokio::runtime::Handle;

use crate::error;
use crate::hosts::address;

/// A connection of the user's pool. Dropped without [`give_back`](Self::give_back), it is closed: its session may have
/// a request under way.
pub(crate) struct UserConnection {
    connection: Option<PoolConnection<Postgres>>,
    /// The `Drop` of the pool's connection needs a runtime, and this one may be dropped outside of any.
    runtime: Handle,
}

impl UserConnection {
    /// Takes a connection from the pool.
    ///
    /// # Errors
    /// The reason why the pool has no connection. Nothing was sent.
    pub(crate) async fn acquire(pool: &PgPool) -> Result<Self> {
        let failed = |error| error::of_connect(error, &address(&pool.connect_options()));
        let connection = pool.acquire().await.map_err(failed)?;
        Ok(Self { connection: Some(connection), runtime: Handle::current() })
    }

    pub(crate) fn connection(&mut self) -> Option<&mut PgConnection> {
        self.connection.as_deref_mut()
    }

    /// Returns the connection to the pool.
    pub(crate) fn give_back(mut self) {
        let _runtime = self.runtime.enter();
        drop(self.connection.take());
    }
}

impl Drop for UserConnection {
    fn drop(&mut self) {
        let _runtime = self.runtime.enter();
        drop(self.connection.take().map(PoolConnection::detach));
    }
}
