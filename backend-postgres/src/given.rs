//! A connection of the user's pool, on loan.

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPool;
use sqlx::{PgConnection, Postgres};
use stanchion_core::Result;
use tokio::runtime::Handle;

use crate::error;

/// A connection of the user's pool. Unless it is given back it is closed: its session may have a request under way.
pub(crate) struct Given {
    connection: Option<PoolConnection<Postgres>>,
    /// The pool's own `Drop` needs a runtime, and ours may come where there is none.
    runtime: Handle,
}

impl Given {
    /// # Errors
    /// Why the pool has none. Nothing was sent.
    pub(crate) async fn acquire(pool: &PgPool) -> Result<Self> {
        let connection =
            pool.acquire().await.map_err(|error| error::of_connect(error, "the pool's server"))?;
        Ok(Self { connection: Some(connection), runtime: Handle::current() })
    }

    pub(crate) fn connection(&mut self) -> Option<&mut PgConnection> {
        self.connection.as_deref_mut()
    }

    /// Gives it back to the pool.
    pub(crate) fn give_back(mut self) {
        let _runtime = self.runtime.enter();
        drop(self.connection.take());
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        let _runtime = self.runtime.enter();
        drop(self.connection.take().map(PoolConnection::detach));
    }
}
