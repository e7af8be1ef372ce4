//! Sends entries of one lane to their server: one call of a script for all of them.

use redis::Cmd;
use stanchion_core::clock::{Instant, micros, now};
use stanchion_core::spi::{Answers, Object, refused};
use stanchion_core::{Error, ErrorKind, Result};

use super::acked_reply::AckedReply;
use super::reply::{Reply, replies};
use super::{Context, RedisSteps};
use crate::durability::Writes;
use crate::error::unexpected;
use crate::keys::stripe_of;
use crate::request::{Call, Request};
use crate::script::Script;

/// A script, and how a request to it is made of entries.
#[derive(Debug)]
pub(super) struct Step<'a, T> {
    pub(super) script: &'a Script,
    pub(super) object: fn(&T) -> &Object,
    encode: Encode<T>,
    writes: Writes,
}

/// How keys and arguments are added to a command.
#[derive(Debug)]
enum Encode<T> {
    /// All keys of each entry's object, what all scripts are given, and what this adds for each
    /// entry.
    Full(fn(&mut Cmd, &T)),
    /// What this adds for all entries.
    Whole(fn(&Context, &mut Cmd, &[&T])),
}

impl<'a, T> Step<'a, T> {
    pub(super) fn new(script: &'a Script, object: fn(&T) -> &Object, arguments: fn(&mut Cmd, &T)) -> Self {
        Self { script, object, encode: Encode::Full(arguments), writes: Writes::Other }
    }

    pub(super) fn whole(
        script: &'a Script,
        object: fn(&T) -> &Object,
        encode: fn(&Context, &mut Cmd, &[&T]),
    ) -> Self {
        Self { script, object, encode: Encode::Whole(encode), writes: Writes::Other }
    }

    pub(super) fn writing(self, writes: Writes) -> Self {
        Self { writes, ..self }
    }

    /// Adds the number of keys, the keys and the arguments.
    fn encode(&self, context: &Context, command: &mut Cmd, entries: &[&T]) {
        let Context { keyspace, process, retention, .. } = context;
        let arguments = match self.encode {
            Encode::Whole(encode) => return encode(context, command, entries),
            Encode::Full(arguments) => arguments,
        };
        let keys: Vec<_> = entries.iter().flat_map(|entry| keyspace.object((self.object)(entry))).collect();
        command.arg(keys.len());
        for key in &keys {
            command.arg(key);
        }
        command.arg(process.to_string()).arg(micros(*retention));
        for entry in entries {
            arguments(command, entry);
        }
    }
}

impl RedisSteps {
    /// As [`call_with_acks`](Self::call_with_acks), for a script that needs no acknowledgement.
    pub(super) async fn call<T: Sync>(
        &self,
        step: &Step<'_, T>,
        batch: &[&T],
        end: Instant,
    ) -> Answers<Reply> {
        let replies = self.call_with_acks(step, batch, end).await;
        replies.into_iter().map(|acked| acked.map(|acked| acked.reply)).collect()
    }

    /// Calls a script for entries of one lane, and again for those entries whose names have more
    /// that expired than one call removes.
    pub(super) async fn call_with_acks<T: Sync>(
        &self,
        step: &Step<'_, T>,
        batch: &[&T],
        end: Instant,
    ) -> Answers<AckedReply> {
        let mut answers = self.call_once(step, batch, end).await;
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
                self.call_once(step, &part, end).await
            } else {
                let late = "the names have more to tidy up (ended holds, silent waiters, changes of form) than the time allows";
                refused(left.len(), &Error::new(ErrorKind::Unavailable, late))
            };
            for (index, answer) in left.into_iter().zip(again) {
                answers[index] = answer;
            }
        }
    }

    /// Sends one request. Its error is the answer to each entry.
    async fn call_once<T: Sync>(
        &self,
        step: &Step<'_, T>,
        batch: &[&T],
        end: Instant,
    ) -> Answers<AckedReply> {
        let complete = |mut command: Cmd| {
            step.encode(&self.context, &mut command, batch);
            command
        };
        let (durability, writes) = (self.context.durability, step.writes);
        let quorum = durability.quorum(writes, end.saturating_duration_since(now()) / 3);
        let call = Call { script: step.script, complete: &complete, quorum };
        let first = batch.first().map(|entry| (step.object)(entry));
        let stripe = first.map_or(0, stripe_of);
        let answered = match self.route.send(stripe, Request::Script(&call), end).await {
            Ok(answered) => answered,
            Err(error) => {
                let key = first.map_or_else(String::new, |object| self.context.keyspace.record(object));
                let error = self.name_missing_rights(error, step.script, (stripe, &key), end).await;
                return refused(batch.len(), &error);
            }
        };
        let shortfall = answered.kept.and_then(|kept| durability.shortfall(kept, writes));
        let acked = |reply| AckedReply { reply, shortfall: shortfall.as_ref().map(Error::replicate) };
        match replies(answered.value, batch.len()) {
            Ok(replies) => replies.into_iter().map(|reply| Ok(acked(reply))).collect(),
            Err(error) => refused(batch.len(), &error),
        }
    }

    /// As [`call`](Self::call) for one entry. A foreign key is an error.
    pub(super) async fn call_one<T: Sync>(
        &self,
        step: &Step<'_, T>,
        entry: &T,
        end: Instant,
    ) -> Result<Reply> {
        let replies = self.call(step, &[entry], end).await;
        replies.into_iter().next().ok_or_else(unexpected)??.ours()
    }

    /// As [`call`](Self::call), and reads each reply.
    pub(super) async fn call_each<T: Sync, A>(
        &self,
        step: &Step<'_, T>,
        batch: &[&T],
        end: Instant,
        read: fn(Reply) -> Result<A>,
    ) -> Answers<A> {
        let replies = self.call(step, batch, end).await;
        replies.into_iter().map(|reply| reply.and_then(read)).collect()
    }
}
