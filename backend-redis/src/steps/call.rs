//! How a batch reaches its server: one call of a script for the entries of each lane.

use futures_util::future::join_all;
use redis::Cmd;
use stanchion_core::clock::now;
use stanchion_core::steps::{Answers, Object, refused};
use stanchion_core::{Error, Result, Ttl};

use super::reply::{Reply, replies};
use super::{Context, RedisSteps, micros, replicas};
use crate::error::unexpected;
use crate::keys::stripe_of;
use crate::script::Script;
use crate::unit::{Call, Quorum, Unit};

/// A reply, and what is missing until what was written may be handed out.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) reply: Reply,
    pub(super) short: Option<Error>,
}

impl RedisSteps {
    /// As [`written`](Self::written), for what need not be on any replica.
    pub(super) async fn call<T: Sync>(
        &self,
        script: &Script,
        batch: &[T],
        object: fn(&T) -> &Object,
        arguments: fn(&mut Cmd, &T),
        lease: Option<Ttl>,
    ) -> Answers<Reply> {
        let written = self.written(script, batch, object, arguments, lease).await;
        written.into_iter().map(|written| written.map(|written| written.reply)).collect()
    }

    /// Calls a script for a batch: the keys of each entry's object, then what `arguments` adds for it. The entries of
    /// each lane leave in one request, all requests at once; one that fails is the answer to its own entries.
    pub(super) async fn written<T: Sync>(
        &self,
        script: &Script,
        batch: &[T],
        object: fn(&T) -> &Object,
        arguments: fn(&mut Cmd, &T),
        lease: Option<Ttl>,
    ) -> Answers<Written> {
        let mut lanes: Vec<(usize, Vec<usize>)> = Vec::new();
        for (index, entry) in batch.iter().enumerate() {
            let lane = self.lane_of(object(entry));
            match lanes.iter_mut().find(|(known, _)| *known == lane) {
                Some((_, entries)) => entries.push(index),
                None => lanes.push((lane, vec![index])),
            }
        }
        let requests = lanes.into_iter().map(async |(_, entries)| {
            let part: Vec<&T> = entries.iter().map(|&index| &batch[index]).collect();
            let answers = match self.request(script, &part, object, arguments, lease).await {
                Ok(written) => written.into_iter().map(Ok).collect(),
                Err(error) => refused(part.len(), &error),
            };
            entries.into_iter().zip(answers)
        });
        let mut answers: Vec<_> = join_all(requests).await.into_iter().flatten().collect();
        answers.sort_unstable_by_key(|(index, _)| *index);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// One request, for entries of one lane.
    async fn request<T: Sync>(
        &self,
        script: &Script,
        batch: &[&T],
        object: fn(&T) -> &Object,
        arguments: fn(&mut Cmd, &T),
        lease: Option<Ttl>,
    ) -> Result<Vec<Written>> {
        let keyspace = &self.context.keyspace;
        let keys_of = |entry: &&T| match script.short {
            true => vec![keyspace.record(object(entry))],
            false => keyspace.object(object(entry)),
        };
        let keys: Vec<_> = batch.iter().map(keys_of).collect();
        let complete = |mut command: Cmd| {
            command.arg(keys.iter().map(Vec::len).sum::<usize>());
            for key in keys.iter().flatten() {
                command.arg(key);
            }
            let Context { process, retention, .. } = &*self.context;
            if !script.short {
                command.arg(process.to_string());
            }
            command.arg(micros(retention.tokens));
            if !script.short {
                command.arg(micros(retention.state));
            }
            for entry in batch {
                arguments(&mut command, entry);
            }
            command
        };
        // A third of the shortest lease, so that an unanswered request can be made again in time.
        let limit = lease.map_or(self.route.limit(), |lease| self.route.limit().min(lease.renewal()));
        let replicas = self.context.replicas;
        let quorum = (script.grants && replicas > 0).then(|| Quorum::within(replicas, limit / 3));
        let call = Call { script, complete: &complete, quorum };
        let stripe = batch.first().map_or(0, |entry| stripe_of(object(entry)));
        let end = now() + limit;
        let answered = match self.route.carry(stripe, Unit::Script(&call), end).await {
            Ok(answered) => answered,
            Err(error) => {
                let key = keys.iter().flatten().next().map_or("", String::as_str);
                return Err(self.named(error, script, (stripe, key), end).await);
            }
        };
        let short = answered.acknowledged.and_then(|count| replicas::shortfall(count, replicas));
        let written = |reply| Written { reply, short: short.as_ref().map(Error::replicate) };
        Ok(replies(answered.value, batch.len())?.into_iter().map(written).collect())
    }

    /// As [`call`](Self::call) for one entry; a foreign key is an error.
    pub(super) async fn call_one<T: Sync>(
        &self,
        script: &Script,
        entry: &T,
        object: fn(&T) -> &Object,
        arguments: fn(&mut Cmd, &T),
        lease: Option<Ttl>,
    ) -> Result<Reply> {
        let replies = self.call(script, std::slice::from_ref(entry), object, arguments, lease).await;
        replies.into_iter().next().ok_or_else(unexpected)??.ours()
    }

    /// As [`call`](Self::call), with each reply read.
    pub(super) async fn call_each<T: Sync, A>(
        &self,
        script: &Script,
        batch: &[T],
        object: fn(&T) -> &Object,
        arguments: fn(&mut Cmd, &T),
        lease: Option<Ttl>,
        read: fn(Reply) -> Result<A>,
    ) -> Answers<A> {
        let replies = self.call(script, batch, object, arguments, lease).await;
        replies.into_iter().map(|reply| reply.and_then(read)).collect()
    }
}
