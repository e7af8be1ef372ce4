//! Where the steps' requests go: the one place that knows whether there are stripes on several servers.

use std::time::Duration;

use redis::{Cmd, Value};
use stanchion_core::Result;
use stanchion_core::clock::{Instant, now};

use crate::cluster::Cluster;
use crate::error;
use crate::link::Link;
use crate::unit::{Answered, Unit};

/// The way to the servers of a store.
#[derive(Debug)]
pub(crate) enum Route {
    /// One server holds all stripes, or the connection finds the right one by itself.
    One(Link),
    /// Each stripe is held by a node of a cluster.
    Cluster(Cluster),
}

impl Route {
    /// The time limit of a request.
    pub(crate) fn limit(&self) -> Duration {
        match self {
            Self::One(link) => link.limit(),
            Self::Cluster(cluster) => cluster.limit(),
        }
    }

    /// What is on stripes of one lane can leave in one request.
    pub(crate) fn lane(&self, stripe: usize) -> usize {
        match self {
            Self::One(link) if !link.is_cluster() => 0,
            _ => stripe,
        }
    }

    /// Sends a unit about keys of one stripe, and waits for its answer until `end`.
    ///
    /// # Errors
    /// `Unavailable` if it was not executed, `Unknown` if it may have been, or what the server's refusal means.
    pub(crate) async fn carry(&self, stripe: usize, unit: Unit<'_>, end: Instant) -> Result<Answered> {
        match self {
            Self::One(link) => link.carry(unit, false, end).await?.map_err(|error| link.judge(error)),
            Self::Cluster(cluster) => cluster.carry(stripe, unit, end).await,
        }
    }

    /// Sends a command about a key of one stripe.
    ///
    /// # Errors
    /// As [`carry`](Self::carry).
    pub(crate) async fn send(&self, stripe: usize, command: &Cmd) -> Result<Value> {
        let answered = self.carry(stripe, Unit::Command(command), now() + self.limit()).await?;
        Ok(answered.value)
    }

    /// Sends a command to each primary; tells who answered, where there are several.
    ///
    /// # Errors
    /// Why the primaries are not known.
    pub(crate) async fn each(&self, command: &Cmd) -> Result<Vec<(String, Result<Value>)>> {
        let (unit, end) = (Unit::Command(command), now() + self.limit());
        match self {
            Self::One(link) => {
                let answer = link.carry(unit, false, end).await;
                let answer = answer.and_then(|answer| answer.map_err(error::of_request));
                Ok(match answer {
                    Ok(Answered { value: Value::Map(nodes), .. }) if link.is_cluster() => {
                        nodes.into_iter().map(|(node, value)| (name(node), Ok(value))).collect()
                    }
                    answer => vec![(String::new(), answer.map(|answered| answered.value))],
                })
            }
            Self::Cluster(cluster) => {
                let answers = cluster.each(unit, end).await?.into_iter();
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
