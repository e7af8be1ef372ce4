//! The steps: each one script, one round trip for a whole batch.

mod replicas;
mod reply;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use redis::Cmd;
use stanchion_core::clock::now;
use stanchion_core::engine::steps::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Force, Kept, LimitCheck, Object, PermitSteps,
    Polled, ProcessId, Release, Renew, refused,
};
use stanchion_core::{Error, Inspection, OnMismatch, Result, Ttl};

use self::reply::{Reply, replies};
use crate::config::Retention;
use crate::error::unexpected;
use crate::keys::{Keyspace, stripe_of};
use crate::route::Route;
use crate::script::{Script, Scripts};
use crate::unit::{Call, Quorum, Unit};

/// What the steps of one process share, whichever connection they use.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) keyspace: Keyspace,
    pub(crate) scripts: Scripts,
    pub(crate) process: ProcessId,
    pub(crate) retention: Retention,
    /// How many have to acknowledge a grant.
    pub(crate) replicas: u32,
}

/// A reply, and what is missing until what was written may be handed out.
#[derive(Debug)]
struct Written {
    reply: Reply,
    short: Option<Error>,
}

/// The steps of mutexes and semaphores over one connection.
///
/// An error of the whole step is `Unavailable` or `Unknown` as for all steps. A name one of whose keys holds a value of
/// another type is `InvalidArgument` naming the key, where the step is about that name alone or acquires; in batches of
/// other steps its holds count as gone.
#[derive(Debug)]
pub struct RedisSteps {
    context: Arc<Context>,
    route: Route,
}

impl RedisSteps {
    pub(crate) fn new(context: Arc<Context>, route: Route) -> Self {
        Self { context, route }
    }

    pub(crate) fn route(&self) -> &Route {
        &self.route
    }

    /// Steps on objects of one lane can leave in one request: all of them, or those of one stripe.
    pub(crate) fn lane_of(&self, object: &Object) -> usize {
        self.route.lane(stripe_of(object))
    }

    /// As [`written`](Self::written), for what need not be on any replica.
    async fn call<T: Sync>(
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
    async fn written<T: Sync>(
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
        let keys = batch
            .iter()
            .map(|entry| self.context.keyspace.object(object(entry)))
            .collect::<Result<Vec<_>>>()?;
        let complete = |mut command: Cmd| {
            command.arg(keys.iter().flatten().count());
            for key in keys.iter().flatten() {
                command.arg(key);
            }
            let Context { process, retention, .. } = &*self.context;
            command.arg(process.to_string()).arg(micros(retention.tokens)).arg(micros(retention.state));
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
        let answered = self.route.carry(stripe, Unit::Script(&call), now() + limit).await?;
        let short = answered.acknowledged.and_then(|count| replicas::shortfall(count, replicas));
        let written = |reply| Written { reply, short: short.as_ref().map(Error::replicate) };
        Ok(replies(answered.value, batch.len())?.into_iter().map(written).collect())
    }

    /// As [`call`](Self::call) for one entry; a foreign key is an error.
    async fn call_one<T: Sync>(
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
    async fn call_each<T: Sync, A>(
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

    fn scripts(&self) -> &Scripts {
        &self.context.scripts
    }
}

#[async_trait]
impl PermitSteps for RedisSteps {
    fn lane(&self, object: &Object) -> usize {
        self.lane_of(object)
    }

    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        let arguments = |command: &mut Cmd, entry: &Acquire| {
            let check = match entry.check {
                LimitCheck::First(OnMismatch::Refuse) => "r",
                LimitCheck::First(OnMismatch::Replace) => "p",
                LimitCheck::First(OnMismatch::Adopt) | LimitCheck::Follow => "a",
            };
            command
                .arg(entry.ticket.to_string())
                .arg(entry.weight)
                .arg(micros(entry.lease.get()))
                .arg(entry.limit)
                .arg(check)
                .arg(u8::from(entry.queue))
                .arg(entry.max_waiters.map(|bound| bound.to_string()).unwrap_or_default())
                .arg(label(entry.label.as_deref()));
        };
        // Each caller has a time limit of its own; a short one is not the others'.
        let lease = batch.iter().map(|entry| entry.lease).max();
        let script = &self.scripts().acquire;
        let written = self.written(script, batch, |entry| &entry.object, arguments, lease).await;
        self.granted(batch, written).await
    }

    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        let arguments = |command: &mut Cmd, entry: &Renew| {
            command.arg(entry.ticket.to_string()).arg(micros(entry.lease.get()));
        };
        let lease = batch.iter().map(|entry| entry.lease).min();
        let read = |reply: Reply| reply.kept();
        self.call_each(&self.scripts().renew, batch, |entry| &entry.object, arguments, lease, read).await
    }

    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        let arguments = |command: &mut Cmd, entry: &Release| {
            let tombstone = entry.tombstone.map_or(0, |ttl| micros(ttl.get()));
            command.arg(entry.ticket.to_string()).arg(tombstone);
        };
        let read = |reply: Reply| reply.kept();
        self.call_each(&self.scripts().release, batch, |entry| &entry.object, arguments, None, read).await
    }

    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        let arguments = |command: &mut Cmd, entry: &Cancel| {
            command.arg(entry.ticket.to_string()).arg(micros(entry.lease.get()));
        };
        let lease = batch.iter().map(|entry| entry.lease).min();
        let script = &self.scripts().cancel;
        self.call_each(script, batch, |entry| &entry.object, arguments, lease, |_| Ok(())).await
    }

    async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        let read = |reply: Reply| reply.polled();
        self.call_each(&self.scripts().poll, batch, |object| object, |_, _| {}, None, read).await
    }

    async fn attach(&self, attach: &Attach) -> Result<Option<Attached>> {
        let arguments = |command: &mut Cmd, entry: &Attach| {
            command
                .arg(entry.from.to_string())
                .arg(entry.to.to_string())
                .arg(micros(entry.lease.get()))
                .arg(label(entry.label.as_deref()));
        };
        let (script, batch) = (&self.scripts().attach, std::slice::from_ref(attach));
        let written = self.written(script, batch, |entry| &entry.object, arguments, Some(attach.lease)).await;
        let Written { reply, short } = written.into_iter().next().ok_or_else(unexpected)??;
        match (reply.ours()?.attached()?, short) {
            // The engine asks again, and in the end withdraws the hold.
            (Some(_), Some(short)) => Err(short),
            (attached, _) => Ok(attached),
        }
    }

    async fn inspect(&self, object: &Object) -> Result<Inspection> {
        let script = &self.scripts().inspect;
        self.call_one(script, object, |object| object, |_, _| {}, None).await?.inspection()
    }

    async fn resize(&self, object: &Object, limit: u32) -> Result<()> {
        let arguments = |command: &mut Cmd, entry: &(Object, u32)| {
            command.arg(entry.1);
        };
        let entry = (object.clone(), limit);
        self.call_one(&self.scripts().resize, &entry, |entry| &entry.0, arguments, None).await?;
        Ok(())
    }

    async fn force(&self, object: &Object, force: Force) -> Result<u32> {
        let arguments = |command: &mut Cmd, entry: &(Object, Force)| {
            command.arg(match entry.1 {
                Force::All => String::new(),
                Force::One(ticket) => ticket.to_string(),
            });
        };
        let entry = (object.clone(), force);
        self.call_one(&self.scripts().force, &entry, |entry| &entry.0, arguments, None).await?.forced()
    }

    async fn ping(&self) -> Result<()> {
        self.route.send(0, &redis::cmd("PING")).await.map(drop)
    }
}

/// A label as it stands at the end of a record: none is not an empty one.
fn label(label: Option<&str>) -> String {
    label.map(|label| format!(" {label}")).unwrap_or_default()
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
