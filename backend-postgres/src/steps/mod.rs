//! The steps. A request is one function of the schema, and one round trip for a whole batch.

mod batch;
#[cfg(feature = "bloom")]
mod bloom;
mod call;
pub(crate) mod dispatch;
mod groups;
mod kept;
mod limits;
mod listing;
mod locked;
mod permits;
mod places;
mod reply;
mod tables;
mod tidying;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::Result;
use stanchion_core::clock::Instant;
use stanchion_core::spi::{
    self, Answers, Ask, Lane, Object, ProcessId, Request, RequestKind, Response, Steps, by, contents,
    responses,
};

use self::call::Statements;
pub(crate) use self::call::{StatementArguments, column, ticket, uuid};
use self::kept::KeptNames;
pub(crate) use self::places::{GrantRecord, PlaceToLeave, leave_arguments};
use self::tables::LockedTables;
use crate::context::Context;
use crate::pool::Pool;

/// The steps of all primitives over one pool.
#[derive(Clone, Debug)]
pub(crate) struct PostgresSteps {
    context: Arc<Context>,
    pool: Arc<Pool>,
    statements: Arc<Statements>,
    tables: Arc<LockedTables>,
    kept: Arc<KeptNames>,
    /// Acquires join the queue and are not granted here: sessions keep the mutexes.
    are_places: bool,
    /// Others wait for the answers to their batches.
    are_hurried: bool,
}

impl PostgresSteps {
    pub(crate) fn new(context: Arc<Context>, pool: Arc<Pool>) -> Self {
        let statements = Arc::new(Statements::new(&context.schema));
        let (tables, kept) = (Arc::default(), Arc::default());
        Self { context, pool, statements, tables, kept, are_places: false, are_hurried: false }
    }

    /// Returns these steps for the places of waiters whose mutexes sessions keep. They wait as a
    /// process of their own: where a lock session cannot be opened, they fall silent, whatever else
    /// the process waits for.
    pub(crate) fn for_places(&self, process: ProcessId) -> Self {
        let context = Arc::new(Context { process, ..(*self.context).clone() });
        Self { context, are_places: true, ..self.clone() }
    }

    /// Returns these steps for batches whose answers others wait for: a name whose row somebody
    /// keeps locked is given up soon.
    pub(crate) fn hurried(&self) -> Self {
        Self { are_hurried: true, ..self.clone() }
    }

    /// Returns the pool that the steps use.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }
}

/// Copies the contents of requests of one kind.
pub(crate) fn owned<A: Ask>(entries: &[&Request]) -> Vec<A> {
    contents(entries).into_iter().cloned().collect()
}

/// The objects of requests.
pub(crate) fn objects(entries: &[&Request]) -> Vec<Object> {
    entries.iter().filter_map(|request| request.object()).cloned().collect()
}

#[async_trait]
impl Steps for PostgresSteps {
    /// One batch may contain any objects. A row that somebody else has locked holds up an acquire,
    /// but no release that came with it, and the reverse.
    fn lane(&self, request: &Request) -> Lane {
        Lane::of_kind(0, request)
    }

    async fn send(&self, batch: &[Request], end: Instant) -> Answers<Response> {
        // Boxed: an optimising build refuses futures that are nested deeper.
        by(batch, Request::kind, |kind, entries| Box::pin(self.send_kind(kind, entries, end))).await
    }

    fn request_timeout(&self) -> Duration {
        self.pool.request_timeout()
    }

    #[cfg(feature = "bloom")]
    fn maximum_positions(&self) -> usize {
        bloom::MAX_POSITIONS
    }
}

impl PostgresSteps {
    /// Sends entries of one kind.
    async fn send_kind(&self, kind: RequestKind, entries: Vec<&Request>, end: Instant) -> Answers<Response> {
        use RequestKind as K;

        let of = &entries[..];
        match kind {
            K::Acquire => responses::<spi::Acquire>(self.acquire(&owned(of), end).await),
            K::Renew => responses::<spi::Renew>(self.renew(&owned(of), end).await),
            K::Release => responses::<spi::Release>(self.release(&owned(of), end).await),
            K::Cancel => responses::<spi::Cancel>(self.cancel(&owned(of), end).await),
            K::Poll => responses::<spi::Poll>(self.poll(&objects(of), end).await),
            K::KeepPlaces => responses::<spi::KeepPlaces>(self.keep_places(&objects(of), end).await),
            K::Look => responses::<spi::Look>(self.look(&owned(of), end).await),
            K::Decide => responses::<spi::Decide>(self.decide(&owned(of), end).await),
            K::Refund => responses::<spi::Refund>(self.refund(&owned(of), end).await),
            #[cfg(feature = "bloom")]
            K::Probe => responses::<spi::Probe>(self.probe(&owned(of), end).await),
            _ => {
                let mut answers = Vec::with_capacity(of.len());
                for request in of {
                    answers.push(Box::pin(self.send_one(request, end)).await);
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
            Request::Resize(resize) => {
                self.resize(&resize.object, resize.limit, end).await.map(Response::Resize)
            }
            Request::ForceRelease(request) => {
                self.force(&request.object, request.force, end).await.map(Response::ForceRelease)
            }
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
            Request::Ping(_) => self.ping(end).await.map(Response::Ping),
            other => Err(other.unsupported()),
        }
    }
}
