//! A connection that the user made and shares with the store.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisResult, Value};

/// Sends commands together and reads their answers, errors of the server among them.
pub(crate) async fn exchange(
    connection: &mut impl ConnectionLike,
    commands: &[Cmd],
) -> RedisResult<Vec<RedisResult<Value>>> {
    let answers = match commands {
        [command] => vec![connection.req_packed_command(command).await?],
        _ => {
            let mut pipeline = Pipeline::with_capacity(commands.len());
            for command in commands {
                pipeline.add_command(command.clone());
            }
            connection.req_packed_commands(&pipeline, 0, commands.len()).await?
        }
    };
    Ok(answers.into_iter().map(Value::extract_error).collect())
}

/// A connection of any type of the client library, of either version of the protocol.
trait Shared: Send + Sync {
    fn exchange(&self, commands: Vec<Cmd>) -> BoxFuture<'static, RedisResult<Vec<RedisResult<Value>>>>;
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Shared for C {
    fn exchange(&self, commands: Vec<Cmd>) -> BoxFuture<'static, RedisResult<Vec<RedisResult<Value>>>> {
        let mut connection = self.clone();
        Box::pin(async move { exchange(&mut connection, &commands).await })
    }
}

/// The user's connection.
#[derive(Clone)]
pub(crate) struct Given {
    connection: Arc<dyn Shared>,
    /// It routes by slot, and sends again what was not answered: no error of it says that nothing was executed.
    pub(crate) is_cluster: bool,
}

impl Given {
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

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("is_cluster", &self.is_cluster).finish_non_exhaustive()
    }
}
