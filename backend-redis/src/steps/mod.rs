//! The steps. A request is one script, and one round trip for a whole batch.

mod alone;
#[cfg(feature = "bloom")]
mod bloom;
mod fast_path;
mod groups;
mod limits;
mod listing;
mod permits;
mod reply;
mod rights;
#[cfg(test)]
mod scans;
mod step;
mod undo;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use stanchion_core::clock::{Instant, now};
use stanchion_core::spi::{
    Answers, Lane, Object, ProcessId, Request, RequestKind, Response, Steps, by, contents, refused, responses,
};
use stanchion_core::{Error, ErrorKind, Result};

pub(crate) use self::fast_path::Busy;
use self::fast_path::{FastScript, FastStep};
use self::limits::Decisions;
use self::reply::{Reply, replies};
use self::step::Step;
use crate::command::Answered;
use crate::durability::Durability;
use crate::error::unexpected;
use crate::keys::{Keyspace, stripe_of};
use crate::route::Route;
use crate::script::Scripts;

/// State that the steps of one process in one namespace share over all of its connections.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) keyspace: Arc<Keyspace>,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) process: ProcessId,
    /// How long the state of an idle name stays.
    pub(crate) retention: Duration,
    pub(crate) busy: Busy,
    pub(crate) durability: Durability,
}

/// The steps over one connection.
///
/// If a key of a name holds a value of another type, a request about that name alone, or one that
/// acquires, ends with `InvalidArgument` naming the key. In other batches the holds of such a name
/// count as gone.
#[derive(Debug)]
pub(crate) struct RedisSteps {
    context: Arc<Context>,
    route: Route,
}

impl RedisSteps {
    pub(crate) fn new(context: Arc<Context>, route: Route) -> Self {
        Self { context, route }
    }

    /// Returns the number of the server that holds an object's stripe.
    pub(crate) fn server_of(&self, object: &Object) -> usize {
        self.route.server(object)
    }

    fn scripts(&self) -> &Scripts {
        &self.context.scripts
    }
}

/// Lanes of acquires and releases that one server has.
const EXCHANGE_LANES: usize = 2;

/// Entries that leave in one call of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Fast(FastScript),
    Full(RequestKind),
}

#[async_trait]
impl Steps for RedisSteps {
    /// Two lanes for the acquires and releases of one server: while it runs the script of one, the
    /// answers to the other are on their way. One for each kind where grants wait for replicas or a
    /// disk: a release that left with them would be answered as late.
    fn lane(&self, request: &Request) -> Lane {
        let server = match request {
            Request::List(list) => self.listed_stripe(list),
            _ => request.object().map_or(0, |object| self.server_of(object)),
        };
        match request {
            Request::Acquire(_) | Request::Release(_) if !self.context.durability.waits() => {
                let stripe = request.object().map_or(0, stripe_of);
                let queue = if self.route.has_all_stripes() { stripe % EXCHANGE_LANES } else { 0 };
                Lane { server, queue }
            }
            _ => Lane { server, queue: EXCHANGE_LANES + request.kind() as usize },
        }
    }

    /// Sends the entries of each script in a call of their own, side by side.
    async fn send(&self, batch: &[Request], end: Instant) -> Answers<Response> {
        let part_of = |request: &Request| {
            let server = request.object().map(|object| self.server_of(object));
            let script = self.fast_script(request);
            (server, script.map_or_else(|| Part::Full(request.kind()), Part::Fast))
        };
        if let [request] = batch {
            return self.send_part(part_of(request).1, &[request], end).await;
        }
        let send = async |(_, part), entries: Vec<&Request>| self.send_part(part, &entries, end).await;
        by(batch, part_of, send).await
    }

    fn request_timeout(&self) -> Duration {
        self.route.timeout()
    }

    #[cfg(feature = "bloom")]
    fn maximum_positions(&self) -> usize {
        bloom::MAX_POSITIONS
    }
}

impl RedisSteps {
    async fn send_part(&self, part: Part, entries: &[&Request], end: Instant) -> Answers<Response> {
        match part {
            Part::Fast(script) => self.send_fast(script, entries, end).await,
            Part::Full(kind) => Box::pin(self.send_kind(kind, entries, end)).await,
        }
    }

    /// Sends requests through a fast script, and what that refuses through the full ones.
    async fn send_fast(&self, script: FastScript, batch: &[&Request], end: Instant) -> Answers<Response> {
        let FastStep { step, read, most } = script.step(self.scripts());
        let replies = if batch.len() <= most {
            self.call(&step, batch, end).await
        } else {
            let parts = batch.chunks(most).map(|part| self.call(&step, part, end));
            join_all(parts).await.into_iter().flatten().collect()
        };
        let (mut answers, mut refused) = (Vec::with_capacity(batch.len()), Vec::new());
        for (index, (reply, entry)) in replies.into_iter().zip(batch).enumerate() {
            let read = |reply: Reply| reply.confirmed(|reply| read(entry, reply), Option::is_some);
            answers.push(reply.and_then(read).transpose().unwrap_or_else(|| {
                refused.push(index);
                Err(unexpected())
            }));
        }
        if !refused.is_empty() {
            let rest: Vec<&Request> = refused.iter().map(|&index| batch[index]).collect();
            let objects = rest.iter().filter_map(|request| request.object());
            objects.for_each(|object| self.context.busy.note(object));
            for (index, answer) in refused.into_iter().zip(self.send_full(&rest, end).await) {
                answers[index] = answer;
            }
        }
        answers
    }

    /// Sends entries of several kinds through the full scripts.
    async fn send_full(&self, entries: &[&Request], end: Instant) -> Answers<Response> {
        by(
            entries,
            |request| request.kind(),
            |kind, part| {
                let part: Vec<&Request> = part.into_iter().copied().collect();
                Box::pin(async move { self.send_kind(kind, &part, end).await })
            },
        )
        .await
    }

    /// Sends entries of one kind through its full script.
    async fn send_kind(&self, kind: RequestKind, entries: &[&Request], end: Instant) -> Answers<Response> {
        use RequestKind as K;
        use stanchion_core::spi as ask;

        match kind {
            K::Acquire => responses::<ask::Acquire>(self.acquire_full(&contents(entries), end).await),
            K::Renew => responses::<ask::Renew>(self.renew_full(&contents(entries), end).await),
            K::Release => responses::<ask::Release>(self.release_full(&contents(entries), end).await),
            K::Cancel => responses::<ask::Cancel>(self.cancel(&contents(entries), end).await),
            K::Poll => responses::<ask::Poll>(self.poll(&contents(entries), end).await),
            K::KeepPlaces => responses::<ask::KeepPlaces>(self.keep_places(&contents(entries), end).await),
            K::Look => responses::<ask::Look>(self.look(&contents(entries), end).await),
            K::Decide => {
                let decisions = Decisions::of(&contents(entries));
                let replies = self.call(&Decisions::step(self.scripts()), &decisions.batches(), end).await;
                responses::<ask::Decide>(decisions.answers(replies))
            }
            K::Refund => responses::<ask::Refund>(self.refund(&contents(entries), end).await),
            #[cfg(feature = "bloom")]
            K::Probe => responses::<ask::Probe>(self.probe(&contents(entries), end).await),
            _ => {
                let mut answers = Vec::with_capacity(entries.len());
                for request in entries {
                    answers.push(self.send_one(request, end).await);
                }
                answers
            }
        }
    }

    /// Calls a script for entries of one lane, and again for those entries whose names have more
    /// that expired than one call removes.
    async fn call<T: Sync>(&self, step: &Step<'_, T>, batch: &[&T], end: Instant) -> Answers<Reply> {
        let mut replies = self.call_once(step, batch, end).await;
        loop {
            let is_unfinished =
                |&index: &usize| replies[index].as_ref().is_ok_and(|reply: &Reply| reply.is_unfinished());
            let left: Vec<usize> = (0..replies.len()).filter(is_unfinished).collect();
            if left.is_empty() {
                return replies;
            }
            let again = if now() < end {
                let part: Vec<&T> = left.iter().map(|&index| batch[index]).collect();
                self.call_once(step, &part, end).await
            } else {
                let late = "the names have more to tidy up (ended holds, silent waiters, changes of form) than the time allows";
                refused(left.len(), &Error::new(ErrorKind::Unavailable, late))
            };
            for (index, reply) in left.into_iter().zip(again) {
                replies[index] = reply;
            }
        }
    }

    /// Calls a script once. An error of the call is the answer to each entry.
    async fn call_once<T: Sync>(&self, step: &Step<'_, T>, batch: &[&T], end: Instant) -> Answers<Reply> {
        let (durability, writes) = (self.context.durability, step.writes);
        let quorum = durability.quorum(writes, end.saturating_duration_since(now()) / 3);
        let command = step.command(&self.context, batch).kept_by(quorum);
        let first = batch.first().map(|entry| (step.object)(entry));
        let stripe = first.map_or(0, stripe_of);
        match self.route.send(stripe, &command, end).await {
            Ok(Answered { value, kept }) => {
                let shortfall = kept.and_then(|kept| durability.shortfall(kept, writes));
                replies(value, batch.len(), shortfall.as_ref())
            }
            Err(error) => {
                let key = first.map_or_else(String::new, |object| self.context.keyspace.record(object));
                refused(batch.len(), &self.name_missing(error, step.script, (stripe, &key), end).await)
            }
        }
    }

    /// As [`call`](Self::call) for one entry. A foreign key is an error.
    async fn call_one<T: Sync>(&self, step: &Step<'_, T>, entry: &T, end: Instant) -> Result<Reply> {
        let replies = self.call(step, &[entry], end).await;
        replies.into_iter().next().ok_or_else(unexpected)??.ours()
    }

    /// As [`call`](Self::call), and reads each reply.
    async fn call_each<T: Sync, A>(
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
