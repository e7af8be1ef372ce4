//! A connection that is borrowed from the user's pool.

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPool;
use sqlx::{Connection, PgConnection, Postgres};
use stanchion_core::Result;
use tokio::runtime::Handle;

use crate::address::address;
use crate::error;

/// A connection of the user's pool. Dropped without [`give_back`](Self::give_back), it is closed:
/// its session may have a request under way.
pub(crate) struct UserConnection {
    connection: Option<PoolConnection<Postgres>>,
    /// The `Drop` of the pool's connection needs a runtime, and this one may be dropped outside of
    /// any.
    runtime: Handle,
}

impl UserConnection {
    /// Takes a connection from the pool, which is in no transaction.
    ///
    /// # Errors
    /// The reason why the pool has no connection. Nothing was sent.
    pub(crate) async fn acquire(pool: &PgPool) -> Result<Self> {
        let failed = |error| error::of_connect(error, &address(&pool.connect_options()));
        let connection = pool.acquire().await.map_err(failed)?;
        let mut taken = Self { connection: Some(connection), runtime: Handle::current() };
        if let Some(connection) = taken.connection() {
            end_transaction(connection).await.map_err(failed)?;
        }
        Ok(taken)
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

/// Ends a transaction that was left open. `sqlx` gives a connection back to its pool inside of one
/// where a future of `begin` is dropped before the answer, and counts none: what a step does there
/// is committed by nobody, so that a grant would be seen by its caller alone.
async fn end_transaction(connection: &mut PgConnection) -> sqlx::Result<()> {
    // Begins nothing, and is refused unless the server says with the answer that a transaction is
    // open. One that is aborted is not: the step itself is refused then, and the connection closed.
    match connection.begin_with("").await {
        Err(sqlx::Error::BeginFailed) => Ok(()),
        Err(error) => Err(error),
        Ok(open) => open.rollback().await,
    }
}

impl Drop for UserConnection {
    fn drop(&mut self) {
        let _runtime = self.runtime.enter();
        drop(self.connection.take().map(PoolConnection::detach));
    }
}
