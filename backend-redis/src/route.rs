//! Routes the requests of the steps. No other module knows whether the stripes are on several
//! servers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, FutureExt};
use redis::{Cmd, Value};
use stanchion_core::clock::{Instant, now};
use stanchion_core::spi::Object;
use stanchion_core::{Error, Result};

use crate::cluster::Cluster;
use crate::command::{Answered, Command};
use crate::error;
use crate::keys::stripe_of;
use crate::pool::Pool;

/// The route of a namespace to the servers of its store.
#[derive(Debug)]
pub(crate) enum Route {
    /// One server holds all stripes, or the connection finds the right one by itself.
    One(Arc<Pool>),
    /// Each stripe is held by a node of a cluster.
    Cluster(Cluster),
}

impl Route {
    /// Returns the time limit of a request.
    pub(crate) fn timeout(&self) -> Duration {
        match self {
            Self::One(pool) => pool.timeout(),
            Self::Cluster(cluster) => cluster.timeout(),
        }
    }

    /// Returns the number of the server that holds an object's stripe: a stripe's own where each
    /// may have another.
    pub(crate) fn server(&self, object: &Object) -> usize {
        if self.has_all_stripes() { 0 } else { stripe_of(object) }
    }

    /// Returns whether one request can carry entries of all stripes.
    pub(crate) fn has_all_stripes(&self) -> bool {
        matches!(self, Self::One(pool) if !pool.is_cluster())
    }

    /// Adds the address of the server to an error, if there is one server only.
    pub(crate) fn locate(&self, error: Error) -> Error {
        match self {
            Self::One(pool) => pool.locate(error),
            Self::Cluster(_) => error,
        }
    }

    /// Sends a command about keys of one stripe, and waits for its answer until `end`.
    ///
    /// # Errors
    /// `Unavailable` if it was not executed, `Unknown` if it may have been, or the kind of the
    /// server's refusal.
    pub(crate) fn send(
        &self,
        stripe: usize,
        command: &Command<'_>,
        end: Instant,
    ) -> impl Future<Output = Result<Answered>> {
        match self {
            Self::One(pool) => {
                let answered = pool.send(command, false, end);
                Either::Left(answered.map(|answered| answered?.map_err(|error| pool.judge(error))))
            }
            Self::Cluster(cluster) => Either::Right(cluster.send(stripe, command, end)),
        }
    }

    /// Sends a command about a key of one stripe.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(crate) async fn send_command(&self, stripe: usize, command: &Cmd) -> Result<Value> {
        let command = command.clone().into();
        let answered = self.send(stripe, &command, now() + self.timeout()).await?;
        Ok(answered.value)
    }

    /// Sends a command to each primary, and waits for the answers for `limit` at most. Returns them
    /// with the name of the node, which is empty for a single server.
    ///
    /// # Errors
    /// If the primaries could not be found out.
    pub(crate) async fn send_to_each_primary(
        &self,
        command: &Cmd,
        limit: Duration,
    ) -> Result<Vec<(String, Result<Value>)>> {
        let (command, end) = (Command::from(command.clone()), now() + limit);
        match self {
            Self::One(pool) => {
                let answer = pool.send(&command, false, end).await;
                let answer = answer.and_then(|answer| answer.map_err(error::of_request));
                Ok(match answer {
                    Ok(Answered { value: Value::Map(nodes), .. }) if pool.is_cluster() => {
                        nodes.into_iter().map(|(node, value)| (name(node), Ok(value))).collect()
                    }
                    answer => vec![(String::new(), answer.map(|answered| answered.value))],
                })
            }
            Self::Cluster(cluster) => {
                let answers = cluster.send_to_each_primary(&command, end).await?.into_iter();
                Ok(answers
                    .map(|(node, answer)| (node.to_string(), answer.map(|answered| answered.value)))
                    .collect())
            }
        }
    }
}

fn name(node: Value) -> String {
    match node {
        Value::BulkString(name) => String::from_utf8_lossy(&name).into_owned(),
        Value::SimpleString(name) => name,
        _ => String::new(),
    }
}
