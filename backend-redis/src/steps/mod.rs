//! The steps. A request is one script, and one round trip for a whole batch.

mod acked_reply;
#[cfg(feature = "bloom")]
mod bloom;
mod call;
mod fast_path;
mod groups;
mod limits;
mod listing;
mod permits;
mod reply;
mod rights;
mod undo;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::Result;
use stanchion_core::clock::Instant;
use stanchion_core::spi::{
    Answers, Lane, Object, ProcessId, Request, RequestKind, Response, Steps, by, contents, responses,
};

pub(crate) use self::fast_path::Busy;
use self::fast_path::FastScript;
use crate::durability::Durability;
use crate::keys::Keyspace;
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
                let stripe = request.object().map_or(0, crate::keys::stripe_of);
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
        by(batch, part_of, |(_, part), entries| self.send_part(part, entries, end)).await
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
    async fn send_part(&self, part: Part, entries: Vec<&Request>, end: Instant) -> Answers<Response> {
        match part {
            Part::Fast(script) => self.fast_then_full(script, &entries, end).await,
            Part::Full(kind) => Box::pin(self.send_kind(kind, &entries, end)).await,
        }
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
            K::Decide => responses::<ask::Decide>(self.decide(&contents(entries), end).await),
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

    /// Sends a request of a kind that leaves alone.
    async fn send_one(&self, request: &Request, end: Instant) -> Result<Response> {
        match request {
            Request::Attach(attach) => self.attach(attach, end).await.map(Response::Attach),
            Request::Split(split) => self.split(split, end).await.map(Response::Split),
            Request::Inspect(inspect) => self.inspect(&inspect.object, end).await.map(Response::Inspect),
            Request::Total(total) => self.usage(&total.object, end).await.map(Response::Total),
            Request::Resize(resize) => self.resize(resize, end).await.map(Response::Resize),
            Request::ForceRelease(force) => self.force(force, end).await.map(Response::ForceRelease),
            Request::SetQuota(set) => self.set_quota(set, end).await.map(Response::SetQuota),
            Request::Reset(reset) => self.reset(reset, end).await.map(Response::Reset),
            #[cfg(feature = "bloom")]
            Request::Merge(merge) => self.merge(merge, end).await.map(Response::Merge),
            #[cfg(feature = "bloom")]
            Request::Clear(clear) => self.clear(&clear.object, end).await.map(Response::Clear),
            #[cfg(feature = "bloom")]
            Request::Survey(survey) => self.survey(survey, end).await.map(Response::Survey),
            #[cfg(feature = "bloom")]
            Request::Read(read) => self.read(read, end).await.map(Response::Read),
            Request::List(list) => self.list(list, end).await.map(Response::List),
            Request::Ping(_) => self.ping().await.map(Response::Ping),
            other => Err(other.unsupported()),
        }
    }
}
