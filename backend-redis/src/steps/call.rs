//! Sends a batch to the servers: one call of a script for the entries of each lane.

use std::time::Duration;

use futures_util::future::join_all;
use redis::Cmd;
use stanchion_core::clock::{Instant, micros, now};
use stanchion_core::steps::{Answers, Object, refused};
use stanchion_core::{Error, ErrorKind, Result, Ttl};

use super::acked_reply::{AckedReply, shortfall};
use super::reply::{Reply, replies};
use super::{Context, RedisSteps};
use crate::error::unexpected;
use crate::keys::stripe_of;
use crate::request::{Call, Quorum, Request};
use crate::script::Script;

impl RedisSteps {
    /// As [`call_with_acks`](Self::call_with_acks), for a script that needs no acknowledgement.
    pub(super) async fn call<T: Sync>(
        &self,
        script: &Script,
        batch: &[T],
        object: fn(&T) -> &Object,
        arguments: fn(&mut Cmd, &T),
        lease: Option<Ttl>,
    ) -> Answers<Reply> {
        let replies = self.call_with_acks(script, batch, object, arguments, lease).await;
        replies.into_iter().map(|acked| acked.map(|acked| acked.reply)).collect()
    }

    /// Calls a script for a batch: the keys of each entry's object, then the arguments that `arguments` adds for it. The
    /// entries of each lane are sent in one request, all requests at once. The error of a request is the answer to its own
    /// entries.
    pub(super) async fn call_with_acks<T: Sync>(
        &self,
        script: &Script,
        batch: &[T],
        object: fn(&T) -> &Object,
        arguments: fn(&mut Cmd, &T),
        lease: Option<Ttl>,
    ) -> Answers<AckedReply> {
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
            let answers = self.call_lane(script, &part, object, arguments, lease).await;
            entries.into_iter().zip(answers)
        });
        let mut answers: Vec<_> = join_all(requests).await.into_iter().flatten().collect();
        answers.sort_unstable_by_key(|(index, _)| *index);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Sends a request for entries of one lane, and further ones for those entries whose names have more that expired than one
    /// call removes.
    async fn call_lane<T: Sync>(
        &self,
        script: &Script,
        batch: &[&T],
        object: fn(&T) -> &Object,
        arguments: fn(&mut Cmd, &T),
        lease: Option<Ttl>,
    ) -> Answers<AckedReply> {
        // A third of the shortest lease, so that an unanswered request can be made again in time.
        let timeout = lease.map_or(self.route.timeout(), |lease| lease.request_limit(self.route.timeout()));
        let end = now() + timeout;
        let mut answers = self.call_until(script, batch, object, arguments, (timeout, end)).await;
        loop {
            let is_unfinished =
                |answer: &Result<AckedReply>| answer.as_ref().is_ok_and(|acked| acked.reply.is_unfinished());
            let left: Vec<usize> =
                (0..answers.len()).filter(|&index| is_unfinished(&answers[index])).collect();
            if left.is_empty() {
                return answers;
            }
            let again = if now() < end {
                let part: Vec<&T> = left.iter().map(|&index| batch[index]).collect();
                self.call_until(script, &part, object, arguments, (timeout, end)).await
            } else {
                let late = "the server has more expired holds of the name to remove than the time allows";
                refused(left.len(), &Error::new(ErrorKind::Unavailable, late))
            };
            for (index, answer) in left.into_iter().zip(again) {
                answers[index] = answer;
            }
        }
    }

    /// Sends one request, for entries of one lane. Its error is the answer to each entry.
    async fn call_until<T: Sync>(
        &self,
        script: &Script,
        batch: &[&T],
        object: fn(&T) -> &Object,
        arguments: fn(&mut Cmd, &T),
        time: (Duration, Instant),
    ) -> Answers<AckedReply> {
        match self.request(script, batch, object, arguments, time).await {
            Ok(replies) => replies.into_iter().map(Ok).collect(),
            Err(error) => refused(batch.len(), &error),
        }
    }

    async fn request<T: Sync>(
        &self,
        script: &Script,
        batch: &[&T],
        object: fn(&T) -> &Object,
        arguments: fn(&mut Cmd, &T),
        (timeout, end): (Duration, Instant),
    ) -> Result<Vec<AckedReply>> {
        let keyspace = &self.context.keyspace;
        let keys_of = |entry: &&T| match script.record_only {
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
            if !script.record_only {
                command.arg(process.to_string());
            }
            command.arg(micros(retention.tokens));
            if !script.record_only {
                command.arg(micros(retention.state));
            }
            for entry in batch {
                arguments(&mut command, entry);
            }
            command
        };
        let replicas = self.context.replicas;
        let quorum = (script.grants && replicas > 0).then(|| Quorum::within(replicas, timeout / 3));
        let call = Call { script, complete: &complete, quorum };
        let stripe = batch.first().map_or(0, |entry| stripe_of(object(entry)));
        let answered = match self.route.send(stripe, Request::Script(&call), end).await {
            Ok(answered) => answered,
            Err(error) => {
                let key = keys.iter().flatten().next().map_or("", String::as_str);
                return Err(self.name_missing_rights(error, script, (stripe, key), end).await);
            }
        };
        let shortfall = answered.acknowledged.and_then(|count| shortfall(count, replicas));
        let acked = |reply| AckedReply { reply, shortfall: shortfall.as_ref().map(Error::replicate) };
        Ok(replies(answered.value, batch.len())?.into_iter().map(acked).collect())
    }

    /// As [`call`](Self::call) for one entry. A foreign key is an error.
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

    /// As [`call`](Self::call), and reads each reply.
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
