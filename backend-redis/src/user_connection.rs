//! A connection that the user has made and shares with the store.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, RedisError, RedisResult, Value};
use stanchion_core::{Error, ErrorKind, Result};

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
    /// Whether it stays broken once it breaks: it is one connection.
    breaks: bool,
    /// Whether it is seen to have broken for good.
    is_over: Arc<AtomicBool>,
    /// Whether it is a cluster connection. Such a connection routes by slot and sends unanswered
    /// requests again, so that none of its errors proves that nothing was executed.
    pub(crate) is_cluster: bool,
}

/// What a cluster connection says once nothing drives it.
const NOT_DRIVEN: &str = "redis_cluster: Unable to";

impl UserConnection {
    pub(crate) fn new<C>(connection: C, is_cluster: bool) -> Self
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let breaks = TypeId::of::<C>() == TypeId::of::<MultiplexedConnection>();
        Self { connection: Arc::new(connection), breaks, is_over: Arc::default(), is_cluster }
    }

    /// Checks whether a request can reach the server by the connection, as far as is known.
    ///
    /// # Errors
    /// `Closed`.
    pub(crate) fn check_open(&self) -> Result<()> {
        if !self.is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
        let detail = "the user's connection broke, or the runtime that drove it ended, and one of this type does not \
                      connect again: give the store a `ConnectionManager`, or make it by `connect`, with connections \
                      of its own";
        Err(Error::new(ErrorKind::Closed, detail))
    }

    pub(crate) async fn exchange(&self, commands: &[Cmd]) -> RedisResult<Vec<RedisResult<Value>>> {
        let answers = self.connection.exchange(commands.to_vec()).await;
        let ends = |error: &RedisError| {
            (self.breaks && error.is_connection_dropped()) || error.to_string().contains(NOT_DRIVEN)
        };
        if answers.as_ref().is_err_and(ends) {
            self.is_over.store(true, Ordering::Relaxed);
        }
        answers
    }
}

impl fmt::Debug for UserConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserConnection").field("is_cluster", &self.is_cluster).finish_non_exhaustive()
    }
}
