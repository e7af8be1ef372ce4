//! The endpoint's answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::routing::post;
use stanchion_pool::WorkerPool;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::batches::Batches;
use crate::collection::Collection;
use crate::settings::Settings;

/// Value of `Retry-After`, in seconds.
const COME_BACK_AFTER: &str = "1";

/// State shared by all requests.
#[derive(Debug)]
pub struct Endpoint {
    pool: WorkerPool,
    batches: Arc<Batches>,
    room: Arc<Semaphore>,
    body_limit: u32,
    patience: Duration,
    accepted: AtomicU64,
}

impl Endpoint {
    /// Creates an endpoint that queues payloads in `pool` for `batches`, within the bounds of the
    /// settings.
    pub fn new(pool: WorkerPool, batches: Arc<Batches>, settings: &Settings) -> Self {
        let room = Arc::new(Semaphore::new(settings.room.get().min(Semaphore::MAX_PERMITS)));
        let (body_limit, patience) = (settings.body, settings.patience);
        Self { pool, batches, room, body_limit, patience, accepted: AtomicU64::new(0) }
    }

    /// Returns the pool.
    pub fn pool(&self) -> &WorkerPool {
        &self.pool
    }

    /// Returns the number of accepted payloads.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Acquire)
    }

    /// Queues the payloads of the request, and returns their number.
    async fn take(&self, request: Request) -> Result<u64, Refused> {
        // Room is taken before the body is read, so that bodies on their way are within the bounds
        // too.
        let announced = self.announced(&request)?;
        let room = Arc::clone(&self.room).try_acquire_many_owned(announced);
        let mut room = room.map_err(|_| Refused::later("too much is on its way to the store"))?;

        let body = timeout(self.patience, Bytes::from_request(request, &())).await;
        let body = body.map_err(|_| Refused::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive"))?;
        let body = body.map_err(|rejection| Refused::new(rejection.status(), rejection.body_text()))?;
        let collection = Collection::read(&body)
            .map_err(|malformed| Refused::new(StatusCode::BAD_REQUEST, malformed.to_string()))?;
        drop(room.split(room.num_permits().saturating_sub(body.len().max(1))));
        drop(body);

        let payloads = collection.payloads();
        let batches = Arc::clone(&self.batches);
        let job = async move { batches.add(collection, room).await };
        // There is no await from here to the answer, so that no request is counted without being
        // queued.
        let job =
            self.pool.try_submit(job).map_err(|refused| Refused::later(refused.refusal().to_string()))?;
        // The job runs detached.
        drop(job);
        self.accepted.fetch_add(payloads, Ordering::AcqRel);
        Ok(payloads)
    }

    /// Returns the largest number of bytes that the body may have, at least 1.
    fn announced(&self, request: &Request) -> Result<u32, Refused> {
        let Some(length) = request.headers().get(CONTENT_LENGTH) else { return Ok(self.body_limit.max(1)) };
        let length: Option<u32> = length.to_str().ok().and_then(|length| length.parse().ok());
        let length = length.filter(|length| *length <= self.body_limit).map(|length| length.max(1));
        length.ok_or_else(|| {
            Refused::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("a body has at most {} bytes", self.body_limit),
            )
        })
    }
}

/// An answer other than 202.
#[derive(Debug)]
struct Refused {
    status: StatusCode,
    text: String,
}

impl Refused {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// A refusal of a request that may be accepted later.
    fn later(text: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let later = self.status == StatusCode::SERVICE_UNAVAILABLE;
        let headers = later.then_some([(RETRY_AFTER, COME_BACK_AFTER)]);
        (self.status, AppendHeaders(headers.into_iter().flatten()), self.text + "\n").into_response()
    }
}

/// Returns the router of `POST /payloads`, the only route.
pub fn router(endpoint: Arc<Endpoint>) -> Router {
    let limit = usize::try_from(endpoint.body_limit).unwrap_or(usize::MAX);
    Router::new().route("/payloads", post(take)).layer(DefaultBodyLimit::max(limit)).with_state(endpoint)
}

async fn take(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Result<impl IntoResponse, Refused> {
    let accepted = endpoint.take(request).await?;
    let json = [(CONTENT_TYPE, "application/json")];
    Ok((StatusCode::ACCEPTED, json, format!("{{\"accepted\":{accepted}}}\n")))
}
