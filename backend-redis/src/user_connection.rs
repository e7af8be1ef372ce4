//! A connection that the user has made and shares with the store.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use redis::aio::ConnectionLike;
use redis::{Cmd, RedisResult, Value};

use crate::connection::exchange;

/// Any connection type of the client library, in either version of the protocol.
trait AnyConnection: Send + Sync {
    fn exchange(&self, commands: Vec<Cmd>) -> BoxFuture<'static, RedisResult<Vec<RedisResult<Value>>>>;
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> AnyConnection for C {
    fn exchange(&self, commands: Vec<Cmd>) -> BoxFuture<'static, RedisResult<Vec<RedisResult<Value>>>> {
        let mut connection = self.clone();
        Box::pin(async move { exchange(&mut connection, &commands).await })
    }
}

/// The user's connection.
#[derive(Clone)]
pub(crate) struct UserConnection {
    connection: Arc<dyn AnyConnection>,
    /// Whether it is a cluster connection. Such a connection routes by slot and sends unanswered
    /// requests again, so that none of its errors proves that nothing was executed.
    pub(crate) is_cluster: bool,
}

impl UserConnection {
    pub(crate) fn new(
        connection: impl ConnectionLike + Clone + Send + Sync + 'static,
        is_cluster: bool,
    ) -> Self {
        Self { connection: Arc::new(connection), is_cluster }
    }

    pub(crate) async fn exchange(&self, commands: &[Cmd]) -> RedisResult<Vec<RedisResult<Value>>> {
        self.connection.exchange(commands.to_vec()).await
    }
}

impl fmt::Debug for UserConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserConnection").field("is_cluster", &self.is_cluster).finish_non_exhaustive()
    }
}
